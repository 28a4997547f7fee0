"""The trusted base of tactful: everything that the privacy promise rests on, and nothing else.

Start with `interface.py` (one turn, Algorithm 1 of DP-MemView); `SPEC.md` is the format of what is
sealed. Nothing here performs I/O, imports asyncio, or knows about sockets, files, YAML or models:
stores, scorers and randomness are passed in.
"""
