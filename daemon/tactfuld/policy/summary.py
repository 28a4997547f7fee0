"""A policy in short: what `tactful policy check` says about one that is in order.

What is *not* here: reading it (`loading`).
"""

from __future__ import annotations

from collections.abc import Iterator

from tactful_core.values import epsilon_of
from tactfuld.policy.document import PolicyDocument
from tactfuld.policy.promises import promises_of


def unused(document: PolicyDocument) -> Iterator[str]:
    """The keys that are read and checked, and that this version neither keeps nor grants by."""
    if document.documents is not None:
        yield "documents"
    for name, app in document.apps.items():
        if app.document_groups:
            yield f"apps.{name}.document_groups"


def summary(document: PolicyDocument) -> dict[str, object]:
    """Only what `json.dumps` takes; names as in the owner's methods (docs/protocol.md)."""
    promises = promises_of(document)
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
        "unused": list(unused(document)),
    }
