"""A succession of data keys that remembers its steps, and fails where a test tells it to."""

from __future__ import annotations

from tactful.errors import NoPermission
from tactful_core.sealing import new_id, new_key
from tactfuld.keys.values import DataKey, Purpose


class KeptSuccession:
    """Implements `tactfuld.keys.values.Succession`.

    Attributes:
        steps: the names of the calls, and the key that was in use.
        fresh: the keys that were made.
        broken: the call that fails.
    """

    def __init__(self) -> None:
        self.steps: list[tuple[str, bytes]] = []
        self.purposes: set[Purpose] = set()
        self.fresh: list[DataKey] = []
        self.broken: str | None = None

    def begin(self, purpose: Purpose, in_use: bytes) -> DataKey:
        self._step("begin", purpose, in_use)
        self.fresh.append(DataKey(new_id(), new_key()))
        return self.fresh[-1]

    def finish(self, purpose: Purpose, in_use: bytes) -> None:
        self._step("finish", purpose, in_use)

    def _step(self, name: str, purpose: Purpose, in_use: bytes) -> None:
        if self.broken == name:
            raise NoPermission("The disk is full.")
        self.purposes.add(purpose)
        self.steps.append((name, in_use))
