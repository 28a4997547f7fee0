"""Keys of stores that live for one measurement, and what is done with their notices."""

from __future__ import annotations

from tactful_core.values import Secret
from tactfuld.keys.values import Ephemeral, StoreKeys


def throwaway_keys() -> StoreKeys:
    """Keys that keep no secret."""
    return StoreKeys(
        store_id=bytes(16),
        memory=Secret(bytes(32)),
        memory_key_id=bytes(16),
        ledger=Secret(bytes(32)),
        ledger_key_id=bytes(16),
        history=Secret(bytes(32)),
        history_key_id=bytes(16),
        source_description="a measurement",
        succession=Ephemeral(),
    )


def unexpected(sentence: str) -> None:
    """A store that is measured has nothing to complain about."""
    raise RuntimeError(sentence)
