"""The terminal interface: what the owner watches. Started by `tactful tui`."""
