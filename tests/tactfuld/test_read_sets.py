"""What a turn costs does not grow with memory: it opens its read set and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.daemon_site import MEALS, site

from tactful.wire import Ask
from tactful_core.promises import Promises
from tactful_core.sealing import Memory, RowSealer
from tactful_core.values import Position, Secret, ShelfName, SlotName
from tactful_policies import starter_text
from tactfuld.policy.loading import parse_policy

SMALL = parse_policy(starter_text("demo"), source="policy.yaml")
LARGE = parse_policy(
    starter_text("demo").replace("positions: 1", "positions: 300"), source="policy.yaml"
)
"""The demo's policy, with shelves of 300 positions where they had one."""


async def drop(_piece: str) -> None:
    """Nobody listens."""


@pytest.mark.parametrize("promises", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("slot", ["health", "food", "finance"])
async def test_a_turn_opens_the_rows_of_its_read_set_once_each_and_no_other(
    profile_dir: Path, monkeypatch: pytest.MonkeyPatch, promises: Promises, slot: str
) -> None:
    touched: list[int] = []
    open_row = RowSealer.open

    def counted(
        self: RowSealer, sealed: bytes, position: Position, version: int
    ) -> Secret[Memory | None]:
        touched.append(position)
        return open_row(self, sealed, position, version)

    async with site(profile_dir, promises=promises) as at:
        await at.memory.remember("I eat no nuts.", ShelfName("food.diet"), None, 1)
        monkeypatch.setattr(RowSealer, "open", counted)
        await at.gate.ask(MEALS, Ask(query="What is for dinner?", slots=(slot,)), drop)
    assert sorted(touched) == sorted(promises.layout.slot(SlotName(slot)).positions)
    assert len(touched) < promises.layout.size
