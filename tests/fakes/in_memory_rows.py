"""A `MemoryReader` over a mapping from positions to texts: no seal, no disk."""

from collections.abc import Mapping
from types import MappingProxyType

from tactful_core.errors import SealError
from tactful_core.values import Position, Secret

Contents = Mapping[Position, str]
"""The texts of one store; a position that is absent is empty."""


class InMemoryRows:
    """Opens rows of `contents`."""

    def __init__(self, contents: Contents = MappingProxyType({})) -> None:
        self.contents = contents

    async def open_rows(self, read_set: tuple[Position, ...]) -> Secret[tuple[str, ...]]:
        return Secret(tuple(self.contents.get(position, "") for position in read_set))


class BrokenRows:
    """Memory that cannot be opened at all."""

    async def open_rows(self, read_set: tuple[Position, ...]) -> Secret[tuple[str, ...]]:
        raise SealError("Sealed bytes could not be authenticated.")
