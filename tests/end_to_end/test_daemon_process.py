"""Real daemons through their real sockets: starting, stopping, dying, and being attacked.

A scenario runs once, in a fixture that notes what it sees; the tests look at the notes, so their
order does not matter.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.end_to_end.processes import short_folder
from tests.fakes.daemon_process import (
    PASSPHRASE,
    PROGRAM,
    SETTINGS,
    DaemonProcess,
    ledger_of,
    make_profile,
    running,
    serve,
    serving,
    spent,
    surroundings,
    until_loaded,
)
from tests.fakes.daemon_site import POLICY, PROMISES, dialled, until
from tests.fakes.raw_connection import RawConnection
from tests.model_fixture import embedded_model

from tactful.app_client import AppClient
from tactful.errors import Denied
from tactful.owner_client import OwnerClient
from tactful.owner_wire import OwnerMethod, Turn
from tactful.profile import Profile
from tactfuld.apps.sandbox import Bubblewrap, sandbox_usable

__all__ = ["embedded_model"]

CAP, CHARGE = 2.0, 0.6666666666666666
MARKER = "kumquat7731"
DINNER = "What can I cook for dinner?"
LONG = SETTINGS.replace("max_tokens: 8", "max_tokens: 900")
SLOW = SETTINGS.replace("deadline_ms: 50", "deadline_ms: 60000")

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def folder(embedded_model: Path) -> Iterator[Path]:
    assert embedded_model.exists()
    with short_folder() as path:
        yield path


def sockets(profile: Profile) -> list[str]:
    return sorted(path.name for path in profile.runtime.glob("*"))


# --- a food day: three charges, then generic; restarts keep the ledger ---------------------------


@dataclass(slots=True)
class FoodDay:
    """What was seen of a daemon that was asked about food only."""

    turns: list[Turn] = field(default_factory=list)
    ledgers: list[dict[str, float]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    leftovers: list[tuple[list[str], list[int]]] = field(default_factory=list)
    children: list[int] = field(default_factory=list)

    def note_end(self, daemon: DaemonProcess, status: int, children: list[int]) -> None:
        self.statuses.append(status)
        self.children.append(len(children))
        self.leftovers.append((sockets(daemon.profile), running(children)))


@pytest.fixture(scope="module")
def food_day(folder: Path) -> FoodDay:
    """Five dinners, SIGTERM; one more, SIGINT; and a stop by the owner while the model loads."""
    profile, day = make_profile(folder / "food"), FoodDay()

    async def dine(times: int) -> None:
        async with OwnerClient.connect(profile) as owner:
            await until_loaded(owner)
            for _ in range(times):
                day.turns += (await owner.tell("meals", DINNER)).turns
                day.ledgers.append(spent(await owner.ledger()))

    async def stop() -> None:
        async with OwnerClient.connect(profile) as owner:
            day.ledgers.append(spent(await owner.ledger()))
            await owner.stop()

    for times, number in ((5, signal.SIGTERM), (1, signal.SIGINT)):
        with serving(profile) as daemon:
            asyncio.run(dine(times))
            children = daemon.descendants()
            day.note_end(daemon, daemon.send(number), children)
    with serving(profile) as daemon:
        children = daemon.descendants()
        asyncio.run(stop())
        day.note_end(daemon, daemon.ended(), children)
    return day


def test_three_dinners_are_charged_and_the_rest_are_generic(food_day: FoodDay) -> None:
    chosen = [selection for turn in food_day.turns for selection in turn.selections]
    assert [c.slot for c in chosen] == ["food"] * 6
    assert [c.fallback for c in chosen] == [False] * 3 + [True] * 3
    for selection in chosen[:3]:
        assert selection.charged == ("diabetes", "debt")
        assert selection.epsilon == pytest.approx(CHARGE, abs=1e-12)
    for selection in chosen[3:]:
        assert (selection.view, selection.epsilon, selection.charged) == ("generic", 0.0, ())
    assert all(turn.answer.strip() for turn in food_day.turns)


def test_spent_grows_to_the_cap_exactly_and_never_above(food_day: FoodDay) -> None:
    expected = [CHARGE, 2 * CHARGE, CAP, CAP, CAP]
    for attribute in ("diabetes", "debt"):
        seen = [ledger[attribute] for ledger in food_day.ledgers[:5]]
        assert seen == pytest.approx(expected, abs=1e-12)
        assert seen[2:] == [CAP] * 3
        assert f"{seen[-1]:.6f}" == "2.000000"


def test_restarts_keep_the_ledger(food_day: FoodDay) -> None:
    assert food_day.ledgers[5:] == [{"diabetes": CAP, "debt": CAP}] * 2


def test_every_orderly_stop_ends_with_status_0(food_day: FoodDay) -> None:
    """SIGTERM, SIGINT, and the owner's `stop` while the model was still loading."""
    assert food_day.statuses == [0, 0, 0]


def test_nothing_is_left_after_an_orderly_stop(food_day: FoodDay) -> None:
    assert all(children > 0 for children in food_day.children)
    assert food_day.leftovers == [([], [])] * 3


# --- killed between charge and reply -------------------------------------------------------------


@dataclass(slots=True)
class Killings:
    """What was seen of a daemon that was killed twice and stopped once, in the middle of a turn."""

    statuses: list[int] = field(default_factory=list)
    heard: list[list[dict[str, Any]]] = field(default_factory=list)
    ledgers: list[dict[str, float]] = field(default_factory=list)
    stale: list[list[str]] = field(default_factory=list)
    orphans: list[tuple[int, list[int]]] = field(default_factory=list)


async def rest(raw: RawConnection) -> list[dict[str, Any]]:
    """What is heard until the connection ends."""
    try:
        return [json.loads(line) for line in (await raw.hear_end()).splitlines()]
    except ConnectionError:
        return []


async def die_in_a_turn(daemon: DaemonProcess, number: signal.Signals, notes: Killings) -> None:
    """Asks as an outside app; the signal comes after the charge, or in the middle of the answer."""
    profile, streams = daemon.profile, "900" in daemon.profile.settings_file.read_text()
    children = daemon.descendants()
    async with OwnerClient.connect(profile) as owner:
        await until_loaded(owner)
        before = spent(await owner.ledger())
        token = (await owner.apps_grant("guest")).token
        async with dialled(profile.app_socket) as raw:
            await raw.ask("in", "authenticate", token=token)
            await raw.say(id=1, method="ask", params={"query": DINNER, "slots": ["food"]})
            heard = [await raw.hear()] if streams else []
            while spent(await owner.ledger()) == before:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.01)
            daemon.process.send_signal(number)
            heard += await rest(raw)
    notes.heard.append(heard)
    notes.statuses.append(await asyncio.to_thread(daemon.ended))
    notes.stale.append(sockets(profile))
    await until(lambda: not running(children))
    notes.orphans.append((len(children), running(children)))


@pytest.fixture(scope="module")
def killings(folder: Path) -> Killings:
    profile, notes = make_profile(folder / "killed"), Killings()
    for settings, number in (
        (SLOW, signal.SIGKILL),
        (LONG, signal.SIGKILL),
        (LONG, signal.SIGTERM),
    ):
        profile.settings_file.write_text(settings)
        with serving(profile) as daemon:
            notes.ledgers.append(spent(asyncio.run(ledger_of(profile))))
            asyncio.run(die_in_a_turn(daemon, number, notes))
    with serving(profile):
        notes.ledgers.append(spent(asyncio.run(ledger_of(profile))))
    return notes


def test_kill_after_the_charge_and_before_any_reply_keeps_the_charge(killings: Killings) -> None:
    assert killings.statuses[0] == -signal.SIGKILL
    assert killings.heard[0] == []
    assert killings.ledgers[0] == {"diabetes": 0.0, "debt": 0.0}
    assert killings.ledgers[1] == pytest.approx({"diabetes": CHARGE, "debt": CHARGE}, abs=1e-12)


def test_kill_while_the_answer_streams_keeps_the_charge(killings: Killings) -> None:
    assert killings.statuses[1] == -signal.SIGKILL
    assert killings.heard[1]
    assert {heard.get("method") for heard in killings.heard[1]} == {"notifications/progress"}
    twice = {"diabetes": 2 * CHARGE, "debt": 2 * CHARGE}
    assert killings.ledgers[2] == pytest.approx(twice, abs=1e-12)


def test_stop_while_the_answer_streams_is_orderly_and_keeps_the_charge(killings: Killings) -> None:
    assert killings.statuses[2] == 0
    assert "result" not in killings.heard[2][-1]
    assert killings.heard[2][-1]["error"]["data"] == {"code": "shutting_down"}
    assert killings.ledgers[3] == {"diabetes": CAP, "debt": CAP}


def test_sockets_that_a_killed_daemon_left_are_recovered(killings: Killings) -> None:
    assert killings.stale[:2] == [["app.sock", "owner.sock"]] * 2
    assert killings.stale[2] == []
    assert len(killings.ledgers) == 4  # all of them read over the sockets of the next daemon


def test_children_of_a_killed_daemon_end_with_it(killings: Killings) -> None:
    assert [left for _, left in killings.orphans] == [[], [], []]
    assert all(before > 0 for before, _ in killings.orphans)


# --- one daemon that lives while it is attacked --------------------------------------------------


@dataclass(frozen=True, slots=True)
class Live:
    """A running daemon, and tokens of its apps."""

    daemon: DaemonProcess
    tokens: dict[str, str]

    @property
    def profile(self) -> Profile:
        return self.daemon.profile

    async def insider(self, raw: RawConnection, app: str = "guest") -> None:
        """Makes a connection to `app.sock` the app's."""
        assert (await raw.ask("in", "authenticate", token=self.tokens[app]))["result"] == {}

    async def owner(self, raw: RawConnection) -> None:
        """Makes a connection to `owner.sock` the owner's."""
        secret = self.profile.owner_secret_file.read_text()
        assert (await raw.ask("in", "authenticate", token=secret))["result"] == {}

    async def assert_sound(self) -> None:
        """Everybody else is served as before, and the log has nothing of what was sent."""
        async with OwnerClient.connect(self.profile) as owner:
            assert (await owner.status()).pid == self.daemon.pid
        async with AppClient.connect(self.profile, self.tokens["guest"]) as guest:
            with pytest.raises(Denied):
                await guest.ask("Which bill comes first?", slots=("finance",))
        assert MARKER not in self.daemon.log
        assert "Traceback" not in self.daemon.log


@pytest.fixture(scope="module")
def live(folder: Path) -> Iterator[Live]:
    sandbox = isinstance(sandbox_usable(), Bubblewrap)
    settings = SETTINGS.replace("sandbox: off", "sandbox: required") if sandbox else SETTINGS
    profile = make_profile(folder / "live", settings=settings)

    async def grant() -> dict[str, str]:
        async with OwnerClient.connect(profile) as owner:
            await until_loaded(owner)
            return {name: (await owner.apps_grant(name)).token for name in ("guest", "nobody")}

    with serving(profile) as daemon:
        yield Live(daemon, asyncio.run(grant()))


def code(reply: dict[str, Any]) -> str:
    found: str = reply["error"]["data"]["code"]
    return found


def line(**message: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


SENT = {
    "no JSON": (MARKER.encode() + b"\n", "parse_error", False),
    "invalid JSON": (
        b'{"jsonrpc":"2.0","id":1,"method":' + MARKER.encode() + b"}\n",
        "parse_error",
        False,
    ),
    "not UTF-8": (b'"' + MARKER.encode() + b'\xff"\n', "parse_error", True),
    "a batch": (json.dumps([{"method": MARKER}]).encode() + b"\n", "invalid_request", False),
    "no version": (
        json.dumps({"id": 1, "method": MARKER}).encode() + b"\n",
        "invalid_request",
        False,
    ),
    "deep nesting": (b"[" * 200 + b"]" * 200 + b"\n", "invalid_request", False),
    "unknown method": (line(id=1, method=MARKER), "unknown_method", False),
    "parameters of the wrong type": (
        line(id=1, method="ask", params={"query": {MARKER: 1}}),
        "invalid_params",
        False,
    ),
    "unknown parameter": (
        line(id=1, method="ask", params={"query": "q", MARKER: 1}),
        "invalid_params",
        False,
    ),
    "oversized line": (b'{"x":"' + MARKER.encode() * 10_000 + b'"}\n', "line_too_long", True),
    "oversized line without an end": (MARKER.encode() * 10_000, "line_too_long", True),
}


@pytest.mark.parametrize("case", SENT)
async def test_nonsense_is_a_documented_error(live: Live, case: str) -> None:
    data, expected, ends = SENT[case]
    async with dialled(live.profile.app_socket) as raw:
        await live.insider(raw)
        await raw.say_bytes(data)
        reply = await raw.hear()
        assert code(reply) == expected
        assert MARKER not in json.dumps(reply)
        if ends:
            assert await rest(raw) == []
        else:
            await raw.say(id=2, method="ask", params={"query": "Hello?", "slots": ["finance"]})
            assert code(await raw.hear()) == "denied"
    await live.assert_sound()


async def test_half_a_line_and_then_silence_ends_that_connection_alone(live: Live) -> None:
    async with (
        dialled(live.profile.app_socket) as app,
        dialled(live.profile.owner_socket) as owner,
    ):
        await live.insider(app)
        await live.owner(owner)
        for raw in (app, owner):
            await raw.say_bytes(b'{"jsonrpc":"2.0","id":1,"method":"' + MARKER.encode())
        await live.assert_sound()
        for raw in (app, owner):
            assert await raw.hear_error() == (None, "idle_timeout")
            assert await raw.hear_end() == b""
    await live.assert_sound()
    async with AppClient.connect(live.profile, live.tokens["guest"]) as guest:
        assert (await guest.ask("What is the capital of Peru?", slots=())).text


async def test_app_without_a_slot_is_denied_and_nobody_is_charged(live: Live) -> None:
    before = await ledger_of(live.profile)
    async with dialled(live.profile.app_socket) as raw:
        await live.insider(raw, "nobody")
        for slots in (None, [], ["food"], ["food", "finance"]):
            reply = await raw.ask(1, "ask", query=MARKER, slots=slots)
            assert code(reply) == "denied"
            assert MARKER not in json.dumps(reply)
    assert await ledger_of(live.profile) == before
    await live.assert_sound()


@pytest.mark.parametrize("door", ["app_socket", "owner_socket"])
@pytest.mark.parametrize("kind", ["guessed", "of the other socket"])
async def test_wrong_token_is_refused_and_ends_the_connection(
    live: Live, door: str, kind: str
) -> None:
    other = {
        "app_socket": live.profile.owner_secret_file.read_text(),
        "owner_socket": live.tokens["guest"],
    }
    token = MARKER if kind == "guessed" else other[door]
    async with dialled(getattr(live.profile, door)) as raw:
        reply = await raw.ask(1, "authenticate", token=token)
        assert code(reply) == "not_authenticated"
        assert token not in json.dumps(reply)
        assert await raw.hear_end() == b""
    assert token not in live.daemon.log
    await live.assert_sound()


@pytest.mark.parametrize("method", [m for m in OwnerMethod if m != OwnerMethod.AUTHENTICATE])
async def test_app_calls_a_method_of_the_owner(live: Live, method: str) -> None:
    async with dialled(live.profile.app_socket) as raw:
        assert code(await raw.ask(1, method)) == "not_authenticated"
        await live.insider(raw)
        assert code(await raw.ask(2, method)) == "unknown_method"
    await live.assert_sound()


async def test_owner_calls_the_method_of_an_app(live: Live) -> None:
    before = await ledger_of(live.profile)
    async with dialled(live.profile.owner_socket) as raw:
        assert code(await raw.ask(1, "ask", query=MARKER)) == "not_authenticated"
        await live.owner(raw)
        reply = await raw.ask(2, "ask", query=MARKER, slots=["food"])
        assert code(reply) == "unknown_method"
        assert MARKER not in json.dumps(reply)
    assert await ledger_of(live.profile) == before
    await live.assert_sound()


def test_sockets_and_the_owners_secret_are_private(live: Live) -> None:
    profile = live.profile
    assert stat.S_IMODE(profile.runtime.stat().st_mode) == 0o700
    for path in (profile.owner_socket, profile.app_socket):
        assert stat.S_ISSOCK(path.stat().st_mode)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(profile.owner_secret_file.stat().st_mode) == 0o600


async def test_version_of_the_policy_that_apps_see_is_opaque(live: Live) -> None:
    async with AppClient.connect(live.profile, live.tokens["guest"]) as guest:
        version = (await guest.ask("Hello?", slots=())).policy
    async with OwnerClient.connect(live.profile) as owner:
        digest = (await owner.status()).policy
    assert digest == PROMISES.digest
    assert version
    assert digest not in version


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="reads /proc")
def test_passphrase_is_in_no_environment_of_a_child(live: Live) -> None:
    children = live.daemon.descendants()
    assert children
    for pid in children:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        assert environment  # it could be read
        assert PASSPHRASE.encode() not in environment
        assert b"TACTFUL_" not in environment
    # The control: what the daemon itself was started with shows what a leak would look like.
    assert PASSPHRASE.encode() in Path(f"/proc/{live.daemon.pid}/environ").read_bytes()


def refusal(daemon: DaemonProcess) -> tuple[int, str, str]:
    """How a daemon ended that could not start: exit status, code, sentence."""
    if "error" not in daemon.ready:
        daemon.send(signal.SIGKILL)
        pytest.fail("The daemon started, and should have refused to.")
    assert set(daemon.ready) == {"error"}
    error = daemon.ready["error"]
    # Only what is wrong with a file of the owner's is told one by one as well.
    told = {"problems"} if error["code"] == "policy_refused" else set[str]()
    assert set(error) == {"code", "message"} | told
    sentence, status = error["message"], daemon.ended()
    if daemon.profile.state.is_dir():
        assert daemon.log.endswith(f"tactfuld: {sentence}\n")
        assert "Traceback" not in daemon.log
    return status, error["code"], sentence


async def test_second_daemon_on_the_same_folder_leaves_the_first_alone(live: Live) -> None:
    paths = (live.profile.owner_socket, live.profile.app_socket)
    before = [path.stat().st_ino for path in paths]
    secret = live.profile.owner_secret_file.read_bytes()
    status, name, sentence = refusal(await asyncio.to_thread(serve, live.profile))
    assert (status, name) == (75, "already_running")
    assert str(live.profile.data) in sentence
    assert "tactful stop" in sentence
    assert [path.stat().st_ino for path in paths] == before
    assert live.profile.owner_secret_file.read_bytes() == secret
    await live.assert_sound()


# --- starts that fail ---------------------------------------------------------------------------


@pytest.fixture
def profile(profile_dir: Path) -> Profile:
    return make_profile(profile_dir / "p")


def test_wrong_passphrase(profile: Profile) -> None:
    status, name, sentence = refusal(serve(profile, passphrase=MARKER))
    assert (status, name) == (77, "key_unavailable")
    assert "passphrase" in sentence
    assert MARKER not in sentence
    assert sockets(profile) == []


def test_missing_passphrase(profile: Profile) -> None:
    status, name, sentence = refusal(serve(profile, passphrase=None))
    assert (status, name) == (77, "passphrase_needed")
    assert "TACTFUL_PASSPHRASE" in sentence


def test_folder_without_a_profile(profile_dir: Path) -> None:
    status, name, sentence = refusal(serve(Profile.at(profile_dir / "nothing")))
    assert (status, name) == (78, "policy_refused")
    assert "tactful init" in sentence
    assert not (profile_dir / "nothing").exists()


def test_policy_without_a_store(profile_dir: Path) -> None:
    profile = Profile.at(profile_dir)
    profile.config.mkdir()
    profile.policy_file.write_text(POLICY)
    status, name, sentence = refusal(serve(profile))
    assert (status, name) == (65, "unusable")
    assert "tactful init" in sentence


def test_policy_with_a_mistake_is_refused_by_file_and_line(profile: Profile) -> None:
    text = profile.policy_file.read_text()
    profile.policy_file.write_text(text.replace("charges_per_cap", "charges_per_cup"))
    number = 1 + text[: text.index("charges_per_cap")].count("\n")
    status, name, sentence = refusal(serve(profile))
    assert (status, name) == (78, "policy_refused")
    assert f"{profile.policy_file}:{number}: allocation.charges_per_cup" in sentence


def test_settings_with_a_mistake_are_refused_by_file_and_line(profile: Profile) -> None:
    profile.settings_file.write_text("# mine\nsandbox: perhaps\n")
    status, name, sentence = refusal(serve(profile))
    assert (status, name) == (78, "policy_refused")
    assert f"{profile.settings_file}:2: sandbox" in sentence


def test_path_that_is_too_long_for_a_socket(profile_dir: Path) -> None:
    deep = make_profile(profile_dir / ("x" * 100))
    status, name, sentence = refusal(serve(deep))
    assert (status, name) == (65, "unusable")
    assert "shorter path" in sentence


def test_socket_of_somebody_who_listens_is_never_removed(profile: Profile) -> None:
    profile.runtime.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(str(profile.app_socket))
        other.listen()
        inode = profile.app_socket.stat().st_ino
        status, name, sentence = refusal(serve(profile))
        assert (status, name) == (75, "already_running")
        assert str(profile.app_socket) in sentence
        assert profile.app_socket.stat().st_ino == inode
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.connect(str(profile.app_socket))
    assert sockets(profile) == ["app.sock"]


def test_file_in_the_place_of_a_socket_is_never_removed(profile: Profile) -> None:
    profile.runtime.mkdir(mode=0o700)
    profile.owner_socket.write_text("precious")
    status, name, _sentence = refusal(serve(profile))
    assert (status, name) == (65, "unusable")
    assert profile.owner_socket.read_text() == "precious"


# --- more than one process ----------------------------------------------------------------------


async def test_of_two_daemons_that_start_at_once_one_serves(profile: Profile) -> None:
    async with asyncio.TaskGroup() as tasks:
        starting = [
            tasks.create_task(asyncio.to_thread(serve, profile), name=f"start {number}")
            for number in range(2)
        ]
    daemons = [task.result() for task in starting]
    try:
        ready = [daemon for daemon in daemons if "ready" in daemon.ready]
        (loser,) = [daemon for daemon in daemons if "error" in daemon.ready]
        assert (await asyncio.to_thread(loser.ended), loser.ready["error"]["code"]) == (
            75,
            "already_running",
        )
        async with OwnerClient.connect(profile) as owner:
            assert (await owner.status()).pid == ready[0].pid
            await owner.stop()
        assert await asyncio.to_thread(ready[0].ended) == 0
    finally:
        for daemon in daemons:
            daemon.process.kill()
            daemon.process.wait()


def one_shot(folder: Path, *arguments: str, passphrase: str | None = PASSPHRASE) -> tuple[int, str]:
    """Exit status and standard output of a command; nothing else is written."""
    done = subprocess.run(
        [PROGRAM, "one-shot", *arguments, "--profile", str(folder)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=surroundings(passphrase) | {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"},
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_init_makes_a_profile_that_the_daemon_opens_by_a_descriptor(profile_dir: Path) -> None:
    folder = profile_dir / "q"
    status, out = one_shot(folder, "init", "--starter", "demo", "--sandbox", "off")
    assert (status, out.count("\n")) == (0, 1)
    assert json.loads(out)["data"]["positions"] == 5
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert PASSPHRASE not in out
    status, out = one_shot(folder, "init", "--starter", "demo")
    assert (status, json.loads(out)["error"]["code"]) == (73, "already_exists")

    reading, writing = os.pipe()
    os.write(writing, f"{PASSPHRASE}\n".encode())
    os.close(writing)
    os.set_inheritable(reading, True)
    command = [PROGRAM, "serve", "--profile", str(folder), "--passphrase-fd", str(reading)]
    ready, writing = os.pipe()
    with subprocess.Popen(
        [*command, "--ready-fd", str(writing)],
        stderr=subprocess.DEVNULL,
        env=surroundings(None),
        pass_fds=(reading, writing),
    ) as process:
        os.close(reading)
        os.close(writing)
        with os.fdopen(ready) as pipe:
            assert pipe.read() == '{"ready": true}\n'
        process.terminate()
        assert process.wait(50) == 0


def test_init_without_a_passphrase_takes_back_what_it_began(profile_dir: Path) -> None:
    status, out = one_shot(profile_dir / "q", "init", passphrase=None)
    assert (status, json.loads(out)["error"]["code"]) == (77, "passphrase_needed")
    left = [path.name for path in (profile_dir / "q").rglob("*") if path.is_file()]
    assert left == ["lock"]
