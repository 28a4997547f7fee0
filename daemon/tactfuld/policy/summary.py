"""A policy in short: what `tactful policy check` says about one that is in order.

What is *not* here: reading it (`loading`).
"""

from __future__ import annotations

from tactful_core.promises import Promises
from tactful_core.values import epsilon_of


def summary(promises: Promises) -> dict[str, object]:
    """Only what `json.dumps` takes; names as in the owner's methods (docs/protocol.md)."""
    layout = promises.layout
    return {
        "policy": promises.digest,
        "positions": layout.size,
        "slots": [
            {
                "slot": slot.name,
                "shelves": [shelf.name for shelf in slot.shelves],
                "positions": len(slot.positions),
                "views": len(slot.vocabulary),
            }
            for slot in layout.slots
        ],
        "attributes": [
            {
                "attribute": attribute.name,
                "cap": epsilon_of(attribute.cap),
                "positions": len(attribute.positions),
            }
            for attribute in layout.attributes
        ],
        "apps": [
            {"app": grant.app, "slots": [s.name for s in layout.slots if s.name in grant.slots]}
            for grant in promises.grants
        ],
    }
