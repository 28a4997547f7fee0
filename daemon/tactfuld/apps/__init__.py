"""Apps as the daemon sees them: which are installed, their processes, their walls, their tokens."""
