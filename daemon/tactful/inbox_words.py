"""What the owner is told of a filled inbox. What is *not* here: what is in it (`cli.inbox`)."""

from __future__ import annotations


def in_the_inbox(items: int) -> str:
    """A sentence, for screens on which something else is the subject; empty if nothing is there."""
    if not items:
        return ""
    things = "1 thing from an app is" if items == 1 else f"{items} things from apps are"
    return f"{things} in the inbox: tactful inbox"
