"""The owner asks a real daemon with the real model, while an app asks as well."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.end_to_end.processes import short_folder
from tests.fakes.daemon_process import SETTINGS, make_profile, root_of, serving, spent, until_loaded
from tests.model_fixture import embedded_model
from tests.tactful.cli.command_line import INSTALLED, Tactful

from tactful.app_client import AppClient
from tactful.owner_client import OwnerClient
from tactful.owner_wire import OwnersAnswer, Turn
from tactful.profile import Profile

__all__ = ["embedded_model"]

MEMORIES = {
    "health.condition": "My doctor is called Okafor.",
    "food.diet": "I do not eat pork.",
    "finance.bills": "The rent is due on the third.",
}
STORY = "Tell me a very long story about a knight, a dragon and my doctor."
# How many pieces may be on their way to the owner when the app's first arrives.
OVERLAP = 5
# A model now and then ends its answer after a few words, which would show nothing.
ATTEMPTS = 5
WORDY = SETTINGS.replace("max_tokens: 8", "max_tokens: 300")

pytestmark = pytest.mark.timeout(180)


@dataclass(slots=True)
class Afternoon:
    """What was seen.

    Attributes:
        before, after: pieces of the owner's answer, after the app's last piece and at the end.
        during: pieces of the owner's answer at each piece of the app's.
    """

    profile: Profile
    command: Tactful
    app_text: str = ""
    before: int = 0
    after: int = 0
    during: list[int] = field(default_factory=list)
    owners: list[OwnersAnswer] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    charged: list[dict[str, float]] = field(default_factory=list)


async def ask_both(seen: Afternoon) -> None:
    """An app asks in the middle of a long answer to the owner."""
    pieces: list[str] = []
    begun = asyncio.Event()

    def hear(piece: str) -> None:
        pieces.append(piece)
        begun.set()

    async with OwnerClient.connect(seen.profile) as owner:
        await until_loaded(owner)
        for shelf, text in MEMORIES.items():
            await owner.remember(text, shelf)
        token = (await owner.apps_grant("guest")).token
        async with AppClient.connect(seen.profile, token) as guest, asyncio.TaskGroup() as tasks:
            asking = tasks.create_task(owner.ask(STORY, on_text=hear), name="owner")
            await begun.wait()
            for _ in range(ATTEMPTS):
                seen.during.clear()
                answer = await guest.ask(
                    "Tell me a long story about a king.",
                    slots=(),
                    on_text=lambda _piece: seen.during.append(len(pieces)),
                )
                seen.app_text, seen.before = answer.text, len(pieces)
                if len(seen.during) > OVERLAP:
                    break
        seen.owners.append(asking.result())
        seen.after = len(pieces)
        seen.charged.append(spent(await owner.ledger()))
        seen.turns.append(await owner.ask_as("meals", "What is for dinner?", slots=("food",)))
        seen.charged.append(spent(await owner.ledger()))


@pytest.fixture(scope="module")
def afternoon(embedded_model: Path) -> Iterator[Afternoon]:
    assert embedded_model.exists()
    with short_folder() as folder:
        profile = make_profile(folder / "p", settings=WORDY)
        with serving(profile):
            command = Tactful(INSTALLED, {"TACTFUL_PROFILE": str(root_of(profile))})
            seen = Afternoon(profile, command)
            asyncio.run(ask_both(seen))
            yield seen


def test_app_is_answered_before_the_owner_and_the_owners_answer_waits(afternoon: Afternoon) -> None:
    assert afternoon.app_text
    assert afternoon.after > afternoon.before
    assert afternoon.during[-1] - afternoon.during[0] <= OVERLAP < len(afternoon.during)


def test_owner_is_answered_from_all_of_memory_at_no_cost(afternoon: Afternoon) -> None:
    (answer,) = afternoon.owners
    assert answer.text
    assert answer.read == answer.remembered == len(MEMORIES)
    assert set(afternoon.charged[0].values()) == {0.0}


def test_question_as_an_app_is_charged(afternoon: Afternoon) -> None:
    (turn,) = afternoon.turns
    assert turn.answer
    assert turn.selections[0].charged == ("diabetes", "debt")
    assert all(value > 0 for value in afternoon.charged[1].values())


def test_command_answers_a_program(afternoon: Afternoon) -> None:
    reply = afternoon.command.json("ask", "Who is my doctor?")
    assert reply["text"]
    assert (reply["read"], reply["remembered"]) == (len(MEMORIES), len(MEMORIES))


def test_ctrl_c_ends_the_answer_and_leaves_the_daemon(afternoon: Afternoon) -> None:
    with afternoon.command.terminal("ask", STORY) as terminal:
        terminal.expect(" ")
        terminal.press("C")
        assert terminal.end() == 130
        assert "Traceback" not in terminal.text
    assert afternoon.command.json("status")["ready"]
