"""Commands without a daemon: `init` makes a whole profile or nothing, and never over another."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends.fail import Keyring as NoKeyring

from tactful.errors import (
    AlreadyExists,
    AlreadyRunning,
    KeyUnavailable,
    NoPermission,
    NotFound,
    PassphraseNeeded,
    PolicyRefused,
    TactfulError,
    Unusable,
)
from tactful.profile import Profile
from tactful_core.ledger import Ledger
from tactful_core.values import Secret
from tactful_policies import SCHEMA_FILE, STARTERS, schema_text, starter_text
from tactfuld import initialising, one_shot
from tactfuld import main as command
from tactfuld.apps.sandbox import Confinement, NoSandbox, Unconfined
from tactfuld.keys.key_file import KEY_FILE
from tactfuld.keys.ring import KeyRing
from tactfuld.locking import LOCK_FILE, hold
from tactfuld.policy.loading import load_policy
from tactfuld.settings import load_settings
from tactfuld.store.history import HISTORY_FILE, HistoryStore
from tactfuld.store.ledger import LEDGER_FILE, LedgerStore, ledger_place
from tactfuld.store.memory import MEMORY_FILE, MemoryStore, memory_place
from tactfuld.unlocking import unlock

PASSPHRASE = Secret("correct horse battery staple")
STORE = (KEY_FILE, LEDGER_FILE, MEMORY_FILE, HISTORY_FILE)
Lines = list[dict[str, Any]]
RunOneShot = Callable[..., Lines]


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine without a keyring, whose sandbox nobody tries; the umask that `main` sets."""
    before, backend = os.umask(0o077), keyring.get_keyring()
    keyring.set_keyring(NoKeyring())  # type: ignore[no-untyped-call]
    monkeypatch.setattr(initialising, "choose_confinement", lambda _setting: Unconfined())
    yield
    keyring.set_keyring(backend)
    os.umask(before)


@pytest.fixture
def run(profile_dir: Path, capsys: pytest.CaptureFixture[str]) -> RunOneShot:
    """Runs a command on the profile; the lines that it has written."""

    def run_one(*arguments: str, passphrase: Secret[str] | None = PASSPHRASE) -> Lines:
        parsed = command._parser().parse_args(["one-shot", *arguments])
        try:
            one_shot.run(Profile.at(profile_dir), passphrase, parsed)
        finally:
            out, err = capsys.readouterr()
        assert err == ""
        return [json.loads(line) for line in out.splitlines()]

    return run_one


@pytest.fixture
def profile(profile_dir: Path) -> Profile:
    return Profile.at(profile_dir)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def made(folder: Path) -> list[str]:
    """Files below a folder, but for the lock, which means nothing."""
    return [name for name in contents(folder) if not name.endswith(LOCK_FILE)]


# --- a whole profile ----------------------------------------------------------------------------


@pytest.mark.parametrize("starter", STARTERS)
async def test_profile_opens_with_its_policy_settings_keys_and_stores(
    profile: Profile, run: RunOneShot, starter: str
) -> None:
    (line,) = await asyncio.to_thread(run, "init", "--starter", starter, "--no-recovery")
    promises = await asyncio.to_thread(load_policy, profile.policy_file)
    assert line == {
        "data": {
            "policy": promises.digest,
            "positions": promises.layout.size,
            "key_source": "passphrase",
            "recovery_phrase": None,
            "sandbox": "required",
            "sandbox_problem": None,
        }
    }
    assert profile.policy_file.read_text() == starter_text(starter)
    assert (await asyncio.to_thread(load_settings, profile.settings_file)).sandbox == "required"
    keys = (await asyncio.to_thread(unlock, profile, PASSPHRASE)).store_keys()
    notices: list[str] = []
    async with (
        MemoryStore.open(memory_place(profile), promises.layout, keys, notices.append) as memory,
        LedgerStore.open(
            ledger_place(profile), keys, promises.layout.attributes, notices.append
        ) as ledger,
    ):
        assert await memory.listing() == ()
        ledger_now = ledger.snapshot()
        assert isinstance(ledger_now, Ledger)
        assert ledger_now.epoch == 1
    assert notices == []


def test_everything_is_private(profile: Profile, profile_dir: Path, run: RunOneShot) -> None:
    run("init", "--starter", "demo")
    modes = {path: path.stat().st_mode & 0o777 for path in profile_dir.rglob("*")}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    assert {profile.config, profile.data, profile.state} <= modes.keys()


def test_files_lie_where_the_profile_says(
    profile: Profile, profile_dir: Path, run: RunOneShot
) -> None:
    run("init", "--starter", "demo")
    stores = [profile.data / name for name in STORE]
    kept = [ledger_place(profile).mark, memory_place(profile).witness]
    schema = profile.policy_file.with_name(SCHEMA_FILE)
    assert schema.read_text() == schema_text()
    expected = [profile.policy_file, schema, profile.settings_file, *stores, *kept]
    assert sorted(made(profile_dir)) == sorted(str(p.relative_to(profile_dir)) for p in expected)


def test_sandbox_is_off_only_by_name(profile: Profile, run: RunOneShot) -> None:
    (line,) = run("init", "--starter", "demo", "--sandbox", "off")
    assert line["data"]["sandbox"] == "off"
    assert load_settings(profile.settings_file).sandbox == "off"


def test_owner_is_told_that_apps_will_not_start(
    run: RunOneShot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(_setting: str) -> Confinement:
        return NoSandbox("Apps do not start: bwrap is not on this machine.")

    monkeypatch.setattr(initialising, "choose_confinement", none)
    (line,) = run("init", "--starter", "demo")
    assert line["data"]["sandbox_problem"] == "Apps do not start: bwrap is not on this machine."


# --- never over anything ------------------------------------------------------------------------


def test_second_init_changes_nothing(profile_dir: Path, run: RunOneShot) -> None:
    run("init", "--starter", "demo")
    before = contents(profile_dir)
    for arguments in (("--starter", "demo"), ("--starter", "everyday", "--sandbox", "off")):
        with pytest.raises(AlreadyExists, match="nothing was changed"):
            run("init", *arguments)
    assert contents(profile_dir) == before


@pytest.mark.parametrize("name", STORE)
def test_any_file_of_a_store_is_reason_enough_to_refuse(
    profile: Profile, profile_dir: Path, run: RunOneShot, name: str
) -> None:
    profile.data.mkdir()
    (profile.data / name).write_bytes(b"precious")
    with pytest.raises(AlreadyExists):
        run("init", "--starter", "demo")
    assert (profile.data / name).read_bytes() == b"precious"
    assert made(profile_dir) == [f"data/{name}"]


def test_policy_and_settings_that_are_there_are_kept(profile: Profile, run: RunOneShot) -> None:
    profile.config.mkdir()
    policy = starter_text("demo") + "  guest: {slots: [food]}\n"
    profile.policy_file.write_text(policy)
    profile.settings_file.write_text("sandbox: off\n")
    (line,) = run("init", "--starter", "everyday", "--sandbox", "required")
    assert profile.policy_file.read_text() == policy
    assert profile.settings_file.read_text() == "sandbox: off\n"
    assert line["data"]["positions"] == 5
    assert line["data"]["sandbox"] == "off"  # what is true, not what was asked for


def test_folder_that_somebody_holds_is_left_alone(profile: Profile, run: RunOneShot) -> None:
    profile.data.mkdir()
    with hold(profile.data), pytest.raises(AlreadyRunning):
        run("init", "--starter", "demo")
    assert made(profile.data.parent) == []
    run("init", "--starter", "demo")


# --- all or nothing -----------------------------------------------------------------------------


def test_unknown_starter_makes_not_even_a_folder(profile_dir: Path, run: RunOneShot) -> None:
    with pytest.raises(NotFound, match=r"There are: everyday, .*demo"):
        run("init", "--starter", "kumquat")
    assert list(profile_dir.iterdir()) == []


def broken(*_: object) -> None:
    raise NoPermission("It could not be written; check the disk.")


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("no passphrase", PassphraseNeeded),
        ("keys", NoPermission),
        ("memory", NoPermission),
        ("ledger", NoPermission),
        ("disk", OSError),
        ("interrupted", KeyboardInterrupt),
    ],
)
def test_what_fails_midway_is_taken_back_and_can_be_run_again(
    profile_dir: Path,
    run: RunOneShot,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    error: type[BaseException],
) -> None:
    passphrase = None if where == "no passphrase" else PASSPHRASE
    with monkeypatch.context() as patch:
        if where == "keys":
            patch.setattr(KeyRing, "create", broken)
        elif where == "memory":
            patch.setattr(MemoryStore, "create", broken)
        elif where == "ledger":
            patch.setattr(LedgerStore, "create", broken)
        elif where in ("disk", "interrupted"):

            def fail(*_: object) -> None:
                raise error

            patch.setattr(LedgerStore, "create", fail)
        with pytest.raises(error):
            run("init", "--starter", "demo", passphrase=passphrase)
    assert made(profile_dir) == []
    assert [line["data"]["positions"] for line in run("init", "--starter", "demo")] == [5]


def test_failure_leaves_files_that_were_there_before(
    profile: Profile, profile_dir: Path, run: RunOneShot, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile.config.mkdir()
    profile.policy_file.write_text(starter_text("demo"))
    monkeypatch.setattr(LedgerStore, "create", broken)
    with pytest.raises(NoPermission):
        run("init", "--starter", "everyday")
    assert made(profile_dir) == ["config/policy.yaml"]
    assert profile.policy_file.read_text() == starter_text("demo")


def test_policy_with_a_mistake_is_refused_before_anything_is_made(
    profile: Profile, profile_dir: Path, run: RunOneShot
) -> None:
    profile.config.mkdir()
    text = starter_text("demo").replace("charges_per_cap", "charges_per_cup")
    profile.policy_file.write_text(text)
    with pytest.raises(PolicyRefused, match=r"policy\.yaml:\d+: .*charges_per_cup"):
        run("init")
    assert made(profile_dir) == ["config/policy.yaml"]
    assert profile.policy_file.read_text() == text


def test_settings_with_a_mistake_are_refused_before_a_store_is_made(
    profile: Profile, profile_dir: Path, run: RunOneShot
) -> None:
    profile.config.mkdir()
    profile.settings_file.write_text("sandbox: maybe\n")
    with pytest.raises(PolicyRefused, match=r"settings\.yaml:1: sandbox"):
        run("init", "--starter", "demo")
    assert made(profile_dir) == ["config/settings.yaml"]


def test_folder_that_cannot_be_made_is_left_to_the_owner(
    profile_dir: Path, run: RunOneShot
) -> None:
    (profile_dir / "data").write_text("in the way")
    with pytest.raises(FileExistsError):
        run("init", "--starter", "demo")
    assert made(profile_dir) == ["data"]
    assert (profile_dir / "data").read_text() == "in the way"


def test_errors_do_not_show_the_passphrase(run: RunOneShot, profile: Profile) -> None:
    run("init", "--starter", "demo")
    profile.policy_file.unlink()
    with pytest.raises(TactfulError) as refused:
        run("init", "--starter", "demo")
    assert PASSPHRASE.reveal() not in str(refused.value)


# --- before a profile is made -------------------------------------------------------------------


class Vault(KeyringBackend):
    """A keyring that may hold a key."""

    priority: ClassVar[float] = 5  # pyright: ignore[reportIncompatibleVariableOverride]

    def get_password(self, service: str, username: str) -> str | None:
        raise AssertionError(f"{service} {username} was asked for.")

    def set_password(self, service: str, username: str, password: str) -> None:
        raise AssertionError(f"{service} {username} was written.")


def test_choices_are_the_starters_a_keyring_and_the_model(
    run: RunOneShot, profile: Profile
) -> None:
    (line,) = run("init-choices")
    assert [each["name"] for each in line["data"]["starters"]] == list(STARTERS)
    assert line["data"]["keyring"] is None
    assert line["data"]["model"]["name"] == "smollm2"
    assert line["data"]["model"]["installed"] == (profile.models / "smollm2.gguf").exists()
    keyring.set_keyring(Vault())  # type: ignore[no-untyped-call]
    (line,) = run("init-choices")
    assert line["data"]["keyring"].endswith("test_one_shot.Vault")
    assert not profile.data.exists()


def test_there_is_nothing_to_choose_where_a_profile_is(run: RunOneShot) -> None:
    run("init", "--starter", "demo")
    with pytest.raises(AlreadyExists):
        run("init-choices")


# --- an init that was interrupted -----------------------------------------------------------------


class DictKeyring(KeyringBackend):
    """A keyring that keeps what it is given, in this process; nobody else can construct it."""

    priority: ClassVar[float] = 5  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, entries: dict[tuple[str, str], str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.entries = entries

    def get_password(self, service: str, username: str) -> str | None:
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.entries[service, username]


def test_init_that_fails_leaves_no_entry_in_the_keyring(
    profile_dir: Path, run: RunOneShot, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = DictKeyring({})
    keyring.set_keyring(backend)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LedgerStore, "create", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run("init", passphrase=None)
    assert made(profile_dir) == []
    assert backend.entries == {}


@pytest.mark.parametrize(
    ("source", "where"),
    [
        ("keyring", "keys"),
        ("keyring", "end"),
        ("passphrase", "memory"),
        ("passphrase", "ledger"),
        ("passphrase", "history"),
    ],
)
def test_init_that_was_killed_opens_nowhere_and_the_next_begins_anew(
    profile: Profile, run: RunOneShot, monkeypatch: pytest.MonkeyPatch, where: str, source: str
) -> None:
    """A process that is killed takes nothing back: its undoing is switched off here."""
    backend = DictKeyring({})
    keyring.set_keyring(backend)
    passphrase = None if source == "keyring" else PASSPHRASE

    class Killed(BaseException):
        pass

    def kill(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(initialising, "ExitStack", Forgetful)
        kinds: dict[str, type] = {"keys": KeyRing, "memory": MemoryStore}
        kinds |= {"ledger": LedgerStore, "history": HistoryStore}
        if where == "end":
            patch.setattr(initialising, "unmark", kill)
        else:
            patch.setattr(kinds[where], "create", kill)
        with pytest.raises(Killed):
            run("init", "--starter", "demo", passphrase=passphrase)
    with pytest.raises(Unusable, match="was interrupted"):
        unlock(profile, passphrase)
    (line,) = run("init", "--starter", "everyday", passphrase=passphrase)
    assert profile.policy_file.read_text() == starter_text("everyday")
    assert (
        unlock(profile, passphrase).store_keys().source_description == (line["data"]["key_source"])
    )
    assert len(backend.entries) == (1 if source == "keyring" else 0)


def test_files_of_the_owner_survive_an_init_that_was_killed(
    profile: Profile, run: RunOneShot, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile.config.mkdir(parents=True)
    profile.policy_file.write_text(starter_text("demo"))

    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(initialising, "ExitStack", Forgetful)
        patch.setattr(LedgerStore, "create", kill)
        with pytest.raises(KeyboardInterrupt):
            run("init", "--starter", "everyday")
    run("init", "--starter", "everyday")
    assert profile.policy_file.read_text() == starter_text("demo")


class Forgetful(ExitStack):
    """Undoes nothing, as a process that was killed."""

    def callback(self, *_: Any, **__: Any) -> Any:
        pass


# --- keys -----------------------------------------------------------------------------------------


@pytest.fixture
def offered() -> Callable[[str], str]:
    """Puts a secret into a pipe; the descriptor's number."""

    def offer(secret: str) -> str:
        reading, writing = os.pipe()
        with os.fdopen(writing, "w") as pipe:
            pipe.write(f"{secret}\n")
        return str(reading)

    return offer


def test_a_life_of_keys(profile: Profile, run: RunOneShot, offered: Callable[[str], str]) -> None:
    """Made, changed, lost, recovered, rotated: the same memory all along."""
    (first,) = run("init", "--starter", "demo")
    phrase = first["data"]["recovery_phrase"]
    assert len(phrase.split()) == 12
    (shown,) = run("key-show", passphrase=None)
    assert shown["data"]["source"] == "passphrase"
    assert shown["data"]["memory_seals"] == 5
    new = ("--key", "passphrase", "--new-passphrase-fd")
    assert run("key-change", *new, offered("second")) == [{"data": {"description": "passphrase"}}]
    with pytest.raises(KeyUnavailable):
        unlock(profile, PASSPHRASE)
    run("recover", "--phrase-fd", offered(phrase.upper()), *new, offered("third"), passphrase=None)
    third = Secret("third")
    (renewed,) = run("key-recovery", passphrase=third)
    assert renewed["data"]["recovery_phrase"] != phrase
    before = unlock(profile, third).store_keys()
    assert run("key-rotate", passphrase=third) == [
        {"data": {"rotated": ["memory", "ledger", "history"]}}
    ]
    after = unlock(profile, third).store_keys()
    assert after.store_id == before.store_id
    for name in ("memory_key_id", "ledger_key_id", "history_key_id"):
        assert getattr(after, name) != getattr(before, name)
    with pytest.raises(KeyUnavailable, match="newer phrase"):
        run("recover", "--phrase-fd", offered(phrase), *new, offered("x"), passphrase=None)


@pytest.mark.parametrize("command", ["key-rotate", "key-recovery"])
def test_keys_of_a_profile_that_somebody_holds_are_left_alone(
    profile: Profile, run: RunOneShot, command: str
) -> None:
    run("init", "--starter", "demo")
    with hold(profile.data), pytest.raises(AlreadyRunning):
        run(command)
    assert run("key-show")[0]["data"]["keys"]["memory"]["changing"] is False
