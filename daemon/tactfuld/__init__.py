"""The daemon: the only process that opens the memory, and what surrounds the trusted base."""
