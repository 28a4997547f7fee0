"""Whatever is wrong around it, a command ends with a sentence and a documented status.

Ctrl-C is in `tests/tactful/cli/test_ctrl_c.py`; commands without a daemon in
`tests/tactful/cli/test_every_command.py`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.end_to_end.adversity import fill, read_only, small_disk, without_privileges
from tests.fakes.daemon_process import PASSPHRASE, make_profile
from tests.tactful.cli.command_line import INSTALLED, Result, Tactful

from tactful.cli.reference import exit_statuses

GIVEN = {"TACTFUL_PASSPHRASE": PASSPHRASE}


@pytest.fixture
def tactful(profile_dir: Path) -> Iterator[Tactful]:
    """The installed command; its profile and its whole home lie in `profile_dir`."""
    folder = profile_dir / "home"
    folder.mkdir()
    command = Tactful(
        INSTALLED,
        {
            "HOME": str(folder),
            "TACTFUL_PROFILE": str(folder / "p"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        },
    )
    yield command
    if (folder / "p" / "run" / "owner.sock").exists():
        command.run("stop")


@pytest.fixture
def made(tactful: Tactful) -> Tactful:
    make_profile(folder_of(tactful))
    return tactful


def folder_of(tactful: Tactful) -> Path:
    return Path(tactful.environment["TACTFUL_PROFILE"])


def refused(tactful: Tactful, command: str, **environment: str) -> str:
    """The code of a command that fails as it should, for people and for programs alike."""
    words = command.split()
    told, coded = tactful.run(*words, **environment), tactful.run(*words, "--json", **environment)
    for result in (told, coded):
        assert "Traceback" not in result.out + result.err
        assert "defect" not in result.out + result.err
    assert told.status == coded.status, (told, coded)
    assert (told.out, coded.err) == ("", "")
    assert told.err.startswith("tactful: ")
    error = coded.error
    assert error["code"] in exit_statuses()[coded.status]
    assert error["message"].rstrip().endswith((".", "?", "!")) or "\n" in error["message"]
    return f"{coded.status} {error['code']}"


@pytest.mark.parametrize("command", ["start", "ledger restore copy.db"])
def test_a_missing_or_wrong_passphrase(made: Tactful, command: str) -> None:
    assert refused(made, command) == "77 passphrase_needed"
    assert refused(made, command, TACTFUL_PASSPHRASE="wrong") == "77 key_unavailable"


def test_a_new_profile_without_its_passphrase(tactful: Tactful) -> None:
    assert refused(tactful, "init --key passphrase") == "77 passphrase_needed"
    assert not folder_of(tactful).joinpath("data", "keys.json").exists()


@pytest.mark.parametrize(
    ("file", "text", "commands"),
    [
        ("policy.yaml", "version: 1\nslots: [\n", ("start", "policy check")),
        ("policy.yaml", "version: 1\n\tslots: {}\n", ("policy check",)),
        ("policy.yaml", "", ("policy check",)),
        ("policy.yaml", "version: 1\nslots: &a [*a]\n", ("policy check",)),
        ("settings.yaml", "model: {context: many}\n", ("start", "model list")),
        ("settings.yaml", "model: ]\n", ("config list",)),
        ("settings.yaml", "snadbox: off\n", ("config get sandbox",)),
    ],
    ids=lambda value: repr(value) if isinstance(value, str) else "",
)
def test_bad_yaml(made: Tactful, file: str, text: str, commands: tuple[str, ...]) -> None:
    (folder_of(made) / "config" / file).write_text(text)
    for command in commands:
        assert refused(made, command, **GIVEN) == "78 policy_refused", command


@pytest.mark.parametrize("file", ["policy.yaml", "settings.yaml"])
def test_a_file_that_is_no_text(made: Tactful, file: str) -> None:
    (folder_of(made) / "config" / file).write_bytes(b"\xff\xfe\x00")
    assert refused(made, "start", **GIVEN) == "78 policy_refused"


def test_a_locked_store(made: Tactful) -> None:
    made.json("start", **GIVEN)
    made.json("lock")
    for command in ("memory list", "ledger", "ask x", "tell meals x", "history list"):
        assert refused(made, command) == "77 locked", command
    told = made.run("status")
    assert told.status == 0
    assert "locked" in told.out
    assert made.json("status")["ledger"] is None


def unprivileged(tactful: Tactful) -> Tactful:
    """The same command, of somebody for whom permissions count."""
    return Tactful(tactful.program, tactful.environment, preparation=without_privileges)


def test_a_home_that_cannot_be_written(tactful: Tactful) -> None:
    with read_only(folder_of(tactful).parent):
        for command in ("init", "init --starter demo --no-model"):
            assert refused(unprivileged(tactful), command, **GIVEN) == "77 no_permission"
        own = unprivileged(tactful)
        own.environment = {**own.environment}
        del own.environment["TACTFUL_PROFILE"]
        assert refused(own, "init", **GIVEN) == "77 no_permission"
        assert refused(own, "model install") in {"77 no_permission", "69 model_failed"}


def test_a_profile_that_cannot_be_written(made: Tactful) -> None:
    folder = folder_of(made)
    with (
        read_only(folder / "config"),
        read_only(folder / "data"),
        read_only(folder / "state"),
        read_only(folder),
    ):
        assert refused(unprivileged(made), "start", **GIVEN) == "77 no_permission"
        set_one = "config set answer.max_tokens 12"
        assert refused(unprivileged(made), set_one) == "77 no_permission"
        restoring = refused(unprivileged(made), "ledger restore copy.db", **GIVEN)
        assert restoring in {"77 no_permission", "66 not_found"}


def test_a_disk_that_is_full_when_a_profile_is_made(tactful: Tactful) -> None:
    folder = folder_of(tactful)
    folder.mkdir()
    with small_disk(folder, "48k"):
        assert refused(tactful, "init --no-model", **GIVEN) == "74 io_failed"
        left = [path.name for path in folder.rglob("*") if path.is_file() and path.stat().st_size]
        assert left == []


def test_a_disk_that_is_full_later(tactful: Tactful) -> None:
    folder = folder_of(tactful)
    folder.mkdir()
    with small_disk(folder, "8m"):
        make_profile(folder)
        filler = fill(folder)
        assert refused(tactful, "start", **GIVEN) == "74 io_failed"
        assert refused(tactful, "config set answer.max_tokens 12") == "74 io_failed"
        filler.unlink()
        tactful.json("start", **GIVEN)
        filler = fill(folder)
        shelf = tactful.json("memory", "list")["shelves"][0]["shelf"]
        remember = f"remember Something. --shelf {shelf}"
        assert refused(tactful, remember) == "74 io_failed"
        assert tactful.json("memory", "list")["items"] == []
        filler.unlink()
        assert_works_again(tactful.run(*remember.split(), "--json"))
        tactful.json("stop")


def assert_works_again(result: Result) -> None:
    assert result.status == 0, result
