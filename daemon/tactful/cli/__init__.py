"""The `tactful` command: one file for each family of commands.

Nothing here decides anything about memory, budgets or policy: commands ask the daemon through the
client in `tactful.owner_client`, or run `tactfuld` as a child process, and print what comes back.
"""
