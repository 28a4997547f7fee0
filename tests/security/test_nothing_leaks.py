"""Planted texts, and where they must not be found after a day with a real daemon.

One marker is in memory on every shelf, another in queries, a third in what the owner asks for
themselves, a fourth is the passphrase. Memory's marker is nowhere but on the owner's own screen;
the query's nowhere but in what the app that asked keeps for itself, and on both screens; that of
the owner's questions is nowhere. The daemon is killed in the middle of the day, so that the
databases are scanned with their WAL.
"""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import signal
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.fakes.daemon_process import (
    PASSPHRASE,
    SETTINGS,
    make_profile,
    serving,
    until_loaded,
)
from tests.fakes.daemon_site import PROMISES, dialled
from tests.fakes.planted import disguises, found_below, found_in
from tests.fakes.raw_connection import RawConnection
from tests.model_fixture import embedded_model

from tactful.errors import TactfulError
from tactful.owner_client import OwnerClient
from tactful.owner_wire import OwnersAnswer, TellReply
from tactful.profile import Profile

__all__ = ["embedded_model"]

REMEMBERED = "kumquat-7731-marmalade"
ASKED = "persimmon-4402-chutney"
WONDERED = "quince-5518-pickle"
QUERY = f"What can I cook for dinner with {ASKED}?"
SHELVES = tuple(str(shelf.name) for shelf in PROMISES.layout.shelves)
VERBOSE = SETTINGS + "logging: {level: debug}\n"

pytestmark = pytest.mark.timeout(120)


@dataclass(slots=True)
class Day:
    """What was written, heard and left behind."""

    profile: Profile
    app: bytearray = field(default_factory=bytearray)
    errors: list[str] = field(default_factory=list)
    told: list[TellReply] = field(default_factory=list)
    answered: list[OwnersAnswer] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    listed: list[str] = field(default_factory=list)
    scans: dict[str, list[str]] = field(default_factory=dict)
    files: dict[str, list[str]] = field(default_factory=dict)

    @property
    def menu(self) -> Path:
        """What the app `meals` keeps for itself, which includes what it asked."""
        return self.profile.state / "apps" / "meals" / "menu.json"

    def scan(self, when: str) -> None:
        """Searches every byte of the data and the state folder."""
        profile = self.profile
        self.files[when] = sorted(path.name for path in profile.data.iterdir())
        self.scans[when] = [
            *found_below(profile.data, REMEMBERED, ASKED, WONDERED, PASSPHRASE),
            *found_below(profile.state, REMEMBERED, WONDERED, PASSPHRASE),
            *found_below(profile.state, ASKED, but=frozenset({self.menu})),
            *found_below(profile.runtime, REMEMBERED, ASKED, WONDERED, PASSPHRASE),
        ]

    async def attempt(self, refused: Awaitable[object]) -> None:
        """Something of the owner's that is refused; what it says is kept."""
        try:
            await refused
        except TactfulError as error:
            self.errors.append(str(error))
        else:
            raise AssertionError("This was not refused.")


async def remember(day: Day, owner: OwnerClient) -> None:
    """Fills every shelf, and then tries what is refused."""
    for shelf in SHELVES:
        await owner.remember(f"I always buy {REMEMBERED} there.", shelf)
    for text, shelf in (
        (f"{REMEMBERED} does not fit any more", SHELVES[0]),
        (REMEMBERED * 100, SHELVES[1]),
        (REMEMBERED, "food.nowhere"),
        (f"{REMEMBERED}\0", SHELVES[0]),
    ):
        await day.attempt(owner.remember(text, shelf))


async def tell(day: Day, owner: OwnerClient) -> None:
    """Lets the hosted app ask, until every budget is used up."""
    for _ in range(5):
        day.told.append(
            await owner.tell(
                "meals",
                QUERY,
                on_turn=lambda turn: day.shown.append(turn.model_dump_json()),
                on_text=day.shown.append,
            )
        )
    await day.attempt(owner.tell("guest", f"{REMEMBERED} {ASKED}"))
    await day.attempt(owner.tell("stranger", f"{REMEMBERED} {ASKED}"))


async def wonder(day: Day, owner: OwnerClient) -> None:
    """Asks as the owner, for whom all of memory is read, and then what is too long."""
    day.answered.append(await owner.ask(f"Where do I buy {REMEMBERED} and {WONDERED}?"))
    await day.attempt(owner.ask(f"{WONDERED} " * 400))


async def ask_outside(day: Day, owner: OwnerClient) -> None:
    """An outside program asks, and sends nonsense; every byte that it hears is kept."""
    token = (await owner.apps_grant("guest")).token
    async with dialled(day.profile.app_socket) as raw:
        await hear(day, raw, "authenticate", {"token": token})
        asked: tuple[Mapping[str, object], ...] = (
            {"query": QUERY, "slots": ["food"]},
            {"query": QUERY, "slots": ["finance"]},
            {"query": QUERY, "slots": [ASKED]},
            {"query": ASKED * 200},
            {ASKED: ASKED},
        )
        for params in asked:
            await hear(day, raw, "ask", params)
        await hear(day, raw, ASKED, {})
        await raw.say_bytes(f'{{"{ASKED}": \n'.encode())
        day.app += json.dumps(await raw.hear()).encode()
        await raw.say_bytes(ASKED.encode() * 5000)
        day.app += await raw.hear_end()
    async with dialled(day.profile.app_socket) as raw:
        await hear(day, raw, "authenticate", {"token": ASKED})
    async with dialled(day.profile.owner_socket) as raw:
        await hear(day, raw, "remember", {"text": REMEMBERED, "shelf": SHELVES[0]})
        await hear(day, raw, "authenticate", {"token": ASKED})


async def hear(day: Day, raw: RawConnection, method: str, params: Mapping[str, object]) -> None:
    """One request; the pieces of an answer may quote the question, everything else is kept."""
    await raw.say(id="q", method=method, params=dict(params))
    message = await raw.hear()
    while "id" not in message:
        message = await raw.hear()
    if "result" in message:
        message["result"].pop("text", None)
    day.app += json.dumps(message).encode()


async def morning(day: Day) -> None:
    async with OwnerClient.connect(day.profile) as owner:
        await until_loaded(owner)
        await remember(day, owner)
        await wonder(day, owner)
        await tell(day, owner)
        await ask_outside(day, owner)
        day.shown.append((await owner.status()).model_dump_json())
        day.shown.append((await owner.ledger()).model_dump_json())


async def evening(day: Day) -> None:
    async with OwnerClient.connect(day.profile) as owner:
        day.listed += [item.text for item in (await owner.memory_list()).items]


@pytest.fixture(scope="module")
def day(embedded_model: Path) -> Iterator[Day]:
    assert embedded_model.exists()
    folder = Path(tempfile.mkdtemp(prefix="tl-", dir="/tmp"))
    try:
        seen = Day(make_profile(folder, settings=VERBOSE))
        with serving(seen.profile) as daemon:
            asyncio.run(morning(seen))
            seen.scan("while it runs")
            assert daemon.send(signal.SIGKILL) == -signal.SIGKILL
        seen.scan("killed")
        with serving(seen.profile) as daemon:
            asyncio.run(evening(seen))
            assert daemon.send(signal.SIGTERM) == 0
        seen.scan("stopped")
        yield seen
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# --- nothing is found ---------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["while it runs", "killed", "stopped"])
def test_no_byte_of_the_data_and_state_folders_shows_what_was_planted(day: Day, when: str) -> None:
    assert day.scans[when] == []


@pytest.mark.parametrize("when", ["while it runs", "killed"])
def test_databases_were_scanned_with_their_wal(day: Day, when: str) -> None:
    assert {"memory.db", "memory.db-wal", "ledger.db", "ledger.db-wal"} <= set(day.files[when])


def test_no_reply_to_an_app_shows_what_was_planted(day: Day) -> None:
    assert found_in(bytes(day.app), REMEMBERED, ASKED, WONDERED, PASSPHRASE) == []
    assert day.app.count(b'"error"') >= 8


def test_no_error_to_the_owner_shows_what_was_planted(day: Day) -> None:
    assert len(day.errors) == 7
    planted = (REMEMBERED, ASKED, WONDERED, PASSPHRASE)
    assert found_in("\n".join(day.errors).encode(), *planted) == []


def test_no_turn_shows_what_is_remembered(day: Day) -> None:
    told = "\n".join([*day.shown, *(reply.model_dump_json() for reply in day.told)])
    assert found_in(told.encode(), REMEMBERED, WONDERED, PASSPHRASE) == []
    selections = [s for reply in day.told for turn in reply.turns for s in turn.selections]
    assert any(selection.charged for selection in selections)  # it was read, and paid for


def test_log_says_what_happened_and_not_what_it_was_about(day: Day) -> None:
    log = day.profile.log_file.read_text()
    events = {json.loads(line)["event"] for line in log.splitlines()}
    assert {"ready", "authenticated", "request_refused", "line_refused", "stopped"} <= events
    assert found_in(log.encode(), REMEMBERED, ASKED, WONDERED, PASSPHRASE) == []
    for word in ("diabetes", "debt", "dinner", "marmalade", "chutney", "pickle"):
        assert word not in log


# --- the scan would have found it ---------------------------------------------------------------


def test_memory_was_really_there_all_the_time(day: Day) -> None:
    assert len(day.listed) == len(SHELVES)
    assert all(REMEMBERED in text for text in day.listed)


def test_owners_question_was_really_answered_from_all_of_it(day: Day) -> None:
    (answer,) = day.answered
    assert answer.text
    assert answer.read == answer.remembered == len(SHELVES)


def test_scan_finds_the_query_where_the_app_keeps_it(day: Day) -> None:
    found = found_below(day.profile.state, ASKED)
    assert found
    assert {entry.partition(":")[0] for entry in found} == {str(day.menu)}


DISGUISED: dict[str, Callable[[str], bytes]] = {
    "utf-8": str.encode,
    "upper case": lambda text: text.upper().encode(),
    "utf-16 with a mark": lambda text: text.encode("utf-16"),
    "utf-16-be": lambda text: text.encode("utf-16-be"),
    "utf-32": lambda text: text.encode("utf-32"),
    "base64": lambda text: base64.b64encode(text.encode()),
    "base64 of a longer text": lambda text: base64.b64encode(f"ab{text}cd".encode()),
    "base64 of utf-16": lambda text: base64.b64encode(text.encode("utf-16")),
    "hex": lambda text: text.encode().hex().encode(),
    "hex of utf-16": lambda text: text.encode("utf-16").hex().encode(),
    "json": lambda text: json.dumps({"text": text}).encode(),
}


@pytest.mark.parametrize("form", DISGUISED)
@pytest.mark.parametrize("text", [REMEMBERED, ASKED, WONDERED, PASSPHRASE])
def test_scan_finds_a_planted_text_in_any_form(tmp_path: Path, form: str, text: str) -> None:
    data = b"\x00\xff" * 100 + DISGUISED[form](f"I buy {text} there.") + b"\x00\xff" * 100
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "file").write_bytes(data)
    assert found_below(tmp_path, text)


def test_scan_finds_a_planted_text_in_the_name_of_a_file(tmp_path: Path) -> None:
    (tmp_path / f"{REMEMBERED}.txt").touch()
    assert found_below(tmp_path, REMEMBERED)


def test_scan_finds_nothing_where_nothing_was_planted(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(ASKED.encode() * 10)
    assert found_below(tmp_path, REMEMBERED) == []
    assert len(disguises(REMEMBERED)) > 15


def test_a_daemon_that_logged_its_memory_would_be_caught(day: Day, tmp_path: Path) -> None:
    """The whole scan over a copy of the folders in which one line of the log tells."""
    profile = Profile.at(tmp_path)
    for folder in (day.profile.data, day.profile.state):
        shutil.copytree(folder, tmp_path / folder.name)
    profile.runtime.mkdir()
    copied = Day(profile)
    copied.scan("before")
    with profile.log_file.open("a") as log:
        log.write(json.dumps({"event": "scored", "rows": [f"I buy {REMEMBERED}."]}) + "\n")
    copied.scan("after")
    assert copied.scans["before"] == []
    assert copied.scans["after"]
