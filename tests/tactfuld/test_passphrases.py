"""A passphrase arrives whole, from one place, and leaves no copy where children would find it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tactful.errors import KeyUnavailable
from tactfuld.passphrases import PASSPHRASE_VARIABLE, passphrase_from

PASSPHRASE = "correct horse battery staple"


def pipe_with(content: bytes) -> int:
    reading, writing = os.pipe()
    os.write(writing, content)
    os.close(writing)
    return reading


def file_with(folder: Path, content: bytes, mode: int = 0o600) -> Path:
    path = folder / "passphrase"
    path.write_bytes(content)
    path.chmod(mode)
    return path


def revealed(descriptor: int | None = None, file: Path | None = None) -> str:
    secret = passphrase_from({}, descriptor, file)
    assert secret is not None
    return secret.reveal()


def test_nothing_given_is_none() -> None:
    assert passphrase_from({}) is None


def test_variable_is_used_and_removed() -> None:
    environ = {PASSPHRASE_VARIABLE: PASSPHRASE, "HOME": "/home/owner"}
    secret = passphrase_from(environ)
    assert secret is not None
    assert secret.reveal() == PASSPHRASE
    assert environ == {"HOME": "/home/owner"}


def test_variable_leaves_the_real_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSPHRASE_VARIABLE, PASSPHRASE)
    passphrase_from(os.environ)
    assert PASSPHRASE_VARIABLE not in os.environ


def test_variable_is_removed_even_if_something_else_is_used_or_fails(tmp_path: Path) -> None:
    environ = {PASSPHRASE_VARIABLE: "another"}
    secret = passphrase_from(environ, descriptor=pipe_with(b"from a pipe\n"))
    assert secret is not None
    assert secret.reveal() == "from a pipe"
    assert not environ
    environ = {PASSPHRASE_VARIABLE: "another"}
    with pytest.raises(KeyUnavailable):
        passphrase_from(environ, file=tmp_path / "absent")
    assert not environ


def test_descriptor_comes_before_a_file(tmp_path: Path) -> None:
    file = file_with(tmp_path, b"from a file\n")
    assert revealed(pipe_with(b"from a pipe\n"), file) == "from a pipe"


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\nanother line\n"])
def test_first_line_counts_without_its_end(tmp_path: Path, end: bytes) -> None:
    assert revealed(pipe_with(PASSPHRASE.encode() + end)) == PASSPHRASE
    assert revealed(file=file_with(tmp_path, PASSPHRASE.encode() + end)) == PASSPHRASE


@pytest.mark.parametrize("kept", ["  spaces around  ", "\ttab", "zoë ☕", "\ufeffmark"])
def test_nothing_else_is_stripped(kept: str) -> None:
    assert revealed(pipe_with(kept.encode() + b"\n")) == kept


def test_descriptor_is_closed_afterwards() -> None:
    descriptor = pipe_with(b"x\n")
    revealed(descriptor)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o610])
def test_file_that_others_may_use_is_refused_with_what_to_do(tmp_path: Path, mode: int) -> None:
    with pytest.raises(KeyUnavailable, match=rf"mode {mode:04o}.*chmod 600"):
        passphrase_from({}, file=file_with(tmp_path, b"secret\n", mode))


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"\r\n", b"secret\xff\n", b"s" * 4097, b"s" * 4097 + b"\n"]
)
def test_no_passphrase_is_made_of_nothing_or_of_something_odd(
    tmp_path: Path, content: bytes
) -> None:
    for descriptor, file in (
        (pipe_with(content), None),
        (None, file_with(tmp_path, content)),
    ):
        with pytest.raises(KeyUnavailable) as error:
            passphrase_from({}, descriptor, file)
        assert "secret" not in str(error.value)
        assert error.value.__context__ is None


def test_longest_passphrase_is_accepted() -> None:
    assert revealed(pipe_with(b"s" * 4096)) == "s" * 4096


@pytest.mark.parametrize("value", ["", "secret\udcff"])
def test_variable_that_is_empty_or_not_text_is_refused(value: str) -> None:
    with pytest.raises(KeyUnavailable, match=PASSPHRASE_VARIABLE) as error:
        passphrase_from({PASSPHRASE_VARIABLE: value})
    assert "secret" not in str(error.value)
    assert error.value.__context__ is None


def test_descriptor_that_is_not_open_is_refused() -> None:
    descriptor = pipe_with(b"")
    os.close(descriptor)
    with pytest.raises(KeyUnavailable, match=f"file descriptor {descriptor}"):
        passphrase_from({}, descriptor)


def test_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyUnavailable, match="absent"):
        passphrase_from({}, file=tmp_path / "absent")
