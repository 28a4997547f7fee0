"""What the walls are made of, and what is said where they cannot be built.

That they hold is shown from inside, in `tests/security/test_sandbox_escapes.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tactfuld.apps import sandbox
from tactfuld.apps.folders import OpenFolder
from tactfuld.apps.sandbox import (
    Bubblewrap,
    NoSandbox,
    SandboxError,
    Unconfined,
    choose_confinement,
    interpreter_folders,
    minimal_environment,
    refuse_exposure,
    sandbox_command,
    sandbox_usable,
)

REMEDIES = ("Install bubblewrap", "`sandbox: off` in settings.yaml")


def stand_in(folder: Path, script: str) -> str:
    """A search path with a `bwrap` that is this shell script."""
    program = folder / "bwrap"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    return str(folder)


def problem(confinement: object) -> str:
    assert isinstance(confinement, NoSandbox)
    return confinement.problem


def test_missing_bubblewrap_is_a_sentence_with_both_remedies(tmp_path: Path) -> None:
    said = problem(choose_confinement("required", str(tmp_path)))
    assert "bwrap is not on this machine" in said
    assert all(remedy in said for remedy in REMEDIES)


def test_refused_bubblewrap_is_a_sentence_with_its_reason_and_both_remedies(tmp_path: Path) -> None:
    path = stand_in(tmp_path, "echo 'bwrap: setting up uid map:\033[31m denied' >&2; exit 1")
    said = problem(choose_confinement("required", path))
    assert "setting up uid map" in said
    assert said.isprintable()
    assert all(remedy in said for remedy in REMEDIES)


def test_bubblewrap_that_says_nothing_is_named_by_its_status(tmp_path: Path) -> None:
    assert "status 7" in problem(sandbox_usable(stand_in(tmp_path, "exit 7")))


def test_bubblewrap_that_hangs_is_not_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "_PROBE_SECONDS", 0.2)
    assert "no answer" in problem(sandbox_usable(stand_in(tmp_path, "exec sleep 1000")))


def test_bubblewrap_that_cannot_be_executed_is_not_usable(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_bytes(b"\x7fELF, but not really")
    program.chmod(0o755)
    assert "could not be started" in problem(sandbox_usable(str(tmp_path)))


def test_older_bubblewrap_is_used_without_the_options_it_does_not_know(tmp_path: Path) -> None:
    script = 'case "$*" in *--disable-userns*) exit 1;; esac'
    found = sandbox_usable(stand_in(tmp_path, script))
    assert found == Bubblewrap(tmp_path / "bwrap", hardened=False)


def test_off_needs_no_bubblewrap(tmp_path: Path) -> None:
    assert choose_confinement("off", str(tmp_path)) == Unconfined()


def test_exactly_one_folder_can_be_written(tmp_path: Path) -> None:
    command = sandbox_command(
        ["program", "--bind"],
        sandbox=Bubblewrap(Path("/usr/bin/bwrap"), hardened=True),
        read_only=[tmp_path / "code"],
        state=tmp_path / "state",
        environment={"HOME": "/nowhere"},
    )
    options, program = command[: command.index("--")], command[command.index("--") + 1 :]
    assert program == ["program", "--bind"]
    written = [options[i + 1] for i, option in enumerate(options) if option.endswith("-bind")]
    assert options.count("--bind") == 1
    assert options[options.index("--bind") + 1] == str(tmp_path / "state")
    assert str(tmp_path / "code") in written
    assert not {"--dev-bind", "--share-net"} & set(options)


def test_granted_folders_are_bound_as_they_were_granted(tmp_path: Path) -> None:
    command = sandbox_command(
        ["program"],
        sandbox=Bubblewrap(Path("/usr/bin/bwrap"), hardened=True),
        read_only=[],
        state=tmp_path / "state",
        environment={},
        folders=[OpenFolder(Path("/r"), writable=False), OpenFolder(Path("/w"), writable=True)],
    )
    for option, path in (("--ro-bind", "/r"), ("--bind", "/w")):
        at = command.index(path)
        assert command[at - 1 : at + 2] == [option, path, path]


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's /proc")
def test_everything_in_proc_that_is_not_known_to_be_harmless_is_covered() -> None:
    covered = sandbox._masked()
    for name in ("loadavg", "stat", "meminfo", "uptime", "cpuinfo", "interrupts", "keys"):
        if Path("/proc", name).exists():
            assert f"/proc/{name}" in covered
    assert "/proc/self" not in covered
    assert not any(word.removeprefix("/proc/").isdigit() for word in covered)


def test_folders_inside_a_bound_one_are_not_bound_again(tmp_path: Path) -> None:
    outer, inner = tmp_path / "a", tmp_path / "a" / "b"
    assert sandbox._outermost([inner, outer, outer, Path("/usr/lib/x")]) == [outer]


def test_environment_has_nothing_of_the_daemons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACTFUL_PASSPHRASE", "MARKER")
    monkeypatch.setenv("PYTHONPATH", "/MARKER")
    environment = minimal_environment(Path("/state"), [Path("/a"), Path("/b")])
    assert "MARKER" not in str(environment)
    assert environment["PYTHONPATH"] == "/a:/b"
    assert "PYTHONPATH" not in minimal_environment(Path("/state"), [])


def test_interpreter_folders_cover_this_interpreter() -> None:
    covered = [Path("/usr"), *interpreter_folders()]
    for path in (Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve()):
        assert any(path.is_relative_to(folder) for folder in covered)


@pytest.mark.parametrize("bound", ["home", ".", "home/../home"])
def test_refuses_to_bind_a_private_folder_or_what_contains_it(tmp_path: Path, bound: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with pytest.raises(SandboxError, match=str(home)):
        refuse_exposure([tmp_path / bound], [home])


def test_refuses_to_bind_a_private_folder_by_another_name(tmp_path: Path) -> None:
    private, link = tmp_path / "private", tmp_path / "link"
    (private / "data").mkdir(parents=True)
    link.symlink_to(private)
    for bound, hidden in ((link, private / "data"), (private, link / "data")):
        with pytest.raises(SandboxError, match="private folder"):
            refuse_exposure([bound], [hidden])


def test_binds_a_folder_that_lies_inside_a_private_one(tmp_path: Path) -> None:
    refuse_exposure([tmp_path / "home" / "src"], [tmp_path / "home"])
