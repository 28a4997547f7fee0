"""Backups: the file, what is in it, and how a profile comes out of one again."""
