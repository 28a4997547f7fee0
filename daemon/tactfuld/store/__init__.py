"""Sealed memory and the durable ledger, each in its own SQLite database."""
