"""Fused answers of a real daemon with the real model: settled, kept on a kill, used up."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.end_to_end.processes import short_folder
from tests.fakes.daemon_process import (
    DaemonProcess,
    make_profile,
    root_of,
    serving,
    until_loaded,
)
from tests.fakes.daemon_site import POLICY
from tests.model_fixture import embedded_model
from tests.tactful.cli.command_line import INSTALLED, Tactful

from tactful.app_client import AppClient
from tactful.errors import TactfulError
from tactful.owner_client import OwnerClient
from tactful.owner_wire import FusedText, Turn
from tactful.profile import Profile
from tactful.wire import Answer
from tactful_core.fusion import FusionParameters, loss_units
from tactful_core.fusion import epsilon_of as fused_epsilon
from tactful_core.values import Units, epsilon_of
from tactfuld.policy.loading import parse_policy

__all__ = ["embedded_model"]

TOKENS = 20
SETTINGS = f"sandbox: off\nturn: {{deadline_ms: 50}}\nanswer: {{max_tokens: {TOKENS}}}\n"
PLANNED = POLICY.replace("planned_draws: 2000", "planned_draws: 45")
QUERY = "What is for dinner?"
FOOD = ("food",)

pytestmark = pytest.mark.timeout(240)


@dataclass(slots=True)
class Evening:
    """What was seen.

    Attributes:
        losses: what fused text had cost `diabetes`, in epsilon: after the first answer, after the
            daemon was killed in the middle of one and had started again.
        pieces: of the app's first answer.
        later: answers until nothing was left, the last one included.
        command: what `tactful ask --fused` printed then.
    """

    turns: list[Turn] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    later: list[Answer] = field(default_factory=list)
    command: dict[str, object] = field(default_factory=dict)

    @property
    def first(self) -> FusedText:
        (turn,) = self.turns
        assert turn.fused is not None
        return turn.fused


async def loss(owner: OwnerClient) -> float:
    """What all fused text of the epoch cost `diabetes`."""
    lines = {line.attribute: line for line in (await owner.ledger()).lines}
    found = lines["diabetes"].fused
    assert found is not None
    return found.spent


async def ask_and_be_killed(seen: Evening, profile: Profile, daemon: DaemonProcess) -> None:
    async with OwnerClient.connect(profile) as owner:
        await until_loaded(owner)
        await owner.remember("I am allergic to walnuts.", "food.diet")
        seen.turns.append(await owner.ask_as("guest", QUERY, slots=FOOD, detail="fused"))
        seen.losses.append(await loss(owner))
        token = (await owner.apps_grant("guest")).token
    async with AppClient.connect(profile, token) as guest, asyncio.TaskGroup() as tasks:
        drawn = asyncio.Event()

        def hear(piece: str) -> None:
            seen.pieces.append(piece)
            if len(seen.pieces) > 1:  # the opening, and something that was drawn
                drawn.set()

        async def ask() -> None:
            with suppress(TactfulError):
                while not drawn.is_set():  # a model may end its answer after the opening
                    seen.pieces.clear()
                    await guest.ask(QUERY, slots=FOOD, detail="fused", on_text=hear)

        tasks.create_task(ask(), name="ask")
        await drawn.wait()
        assert daemon.send(signal.SIGKILL) == -signal.SIGKILL


async def ask_until_nothing_is_left(seen: Evening, profile: Profile) -> None:
    async with OwnerClient.connect(profile) as owner:
        await until_loaded(owner)
        seen.losses.append(await loss(owner))
        token = (await owner.apps_grant("guest")).token
        async with AppClient.connect(profile, token) as guest:
            while not seen.later or seen.later[-1].detail == "fused":
                seen.later.append(await guest.ask(QUERY, slots=FOOD, detail="fused"))


@pytest.fixture(scope="module")
def evening(embedded_model: Path) -> Iterator[Evening]:
    assert embedded_model.exists()
    seen = Evening()
    with short_folder() as folder:
        profile = make_profile(folder / "p", policy=PLANNED, settings=SETTINGS)
        with serving(profile) as daemon:
            asyncio.run(ask_and_be_killed(seen, profile, daemon))
        with serving(profile):
            asyncio.run(ask_until_nothing_is_left(seen, profile))
            command = Tactful(INSTALLED, {"TACTFUL_PROFILE": str(root_of(profile))})
            seen.command = command.json("ask", "--as", "guest", "--fused", "--slot", "food", QUERY)
        yield seen


def test_a_fused_answer_is_charged_by_its_draws(evening: Evening) -> None:
    (turn,), spent = evening.turns, evening.first
    assert turn.answer
    assert spent.reason is None
    assert spent.cells > 0
    assert "diabetes" in spent.charged
    assert 0 < spent.draws + spent.free <= TOKENS == spent.reserved
    assert evening.losses[0] > 0


def test_a_killed_daemon_leaves_the_whole_reservation_spent(evening: Evening) -> None:
    """How much of the answer was read never matters: what was reserved is gone."""
    assert 1 < len(evening.pieces) <= TOKENS
    parameters = parse_policy(PLANNED, source="policy.yaml").calibrated()
    assert parameters is not None
    each = epsilon_of(loss_units(parameters, 1, 1))  # `diabetes` touches all cells: k_a = k*
    before, after = evening.losses
    assert after - before >= TOKENS * each - 1e-6
    assert before <= evening.first.draws * each + constant(parameters) + 1e-6


def constant(parameters: FusionParameters) -> float:
    """What any fused text at all costs at the policy's delta, whatever it says."""
    return fused_epsilon(parameters, Units(1), 1e-5)


def test_where_nothing_is_left_the_answer_is_one_of_views(evening: Evening) -> None:
    assert [answer.detail for answer in evening.later[:-1]] == ["fused"] * (len(evening.later) - 1)
    assert evening.later[-1].detail == "views"
    assert evening.later[-1].text
    assert len(evening.later) <= 1 + 45


def test_command_says_why_nothing_was_fused(evening: Evening) -> None:
    fused = evening.command["fused"]
    assert isinstance(fused, dict)
    assert fused["reason"] == "the budget of fused text is used up"
    assert (fused["draws"], fused["reserved"], fused["cells"]) == (0, 0, 0)
