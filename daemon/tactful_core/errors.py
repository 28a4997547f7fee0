"""Errors of the trusted base. A leaf: it imports nothing of ours.

Families by who must act:

- `ContractError`: a caller inside the daemon broke a rule of this package (a bug; fail closed);
- `SealError`: sealed bytes are not what was written (the owner must restore, or check
  the key).

No message ever carries memory text, keys, scores or prompts.
"""

from __future__ import annotations


class CoreError(Exception):
    """Base of all errors raised by `tactful_core`."""


class ContractError(CoreError):
    """A caller passed values that the contract of this package forbids."""


class SealError(CoreError):
    """Sealed bytes could not be authenticated with this key, store, position and version."""


class CapacityError(CoreError):
    """A text does not fit the public capacity of a position; `limit` and `size` are in bytes."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"The text has {size} bytes, the position holds at most {limit}. "
            "Shorten it, or split it over two positions."
        )
        self.size = size
        self.limit = limit
