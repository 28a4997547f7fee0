"""What apps and front ends import: wire types, the async client, hooks, errors, and the CLI.

Nothing here holds domain logic, and nothing here imports the daemon or the trusted base.
"""
