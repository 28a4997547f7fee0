"""A passphrase comes in where the owner puts it, and comes out nowhere else."""

import json
from pathlib import Path

import pytest

from tactful.cli import passphrase as under_test
from tactful.cli.passphrase import (
    Passphrase,
    ask_for_new,
    from_file,
    take_from_environment,
    to_bytes,
    unlocked,
)
from tactful.errors import KeyUnavailable, NotFound, PassphraseNeeded


def private(path: Path, content: str) -> Path:
    path.touch(mode=0o600)
    path.write_text(content)
    return path


def test_the_variable_is_removed_from_the_environment() -> None:
    environ = {"TACTFUL_PASSPHRASE": "sesame", "OTHER": "x"}
    taken = take_from_environment(environ)
    assert taken is not None
    assert taken.reveal() == "sesame"
    assert environ == {"OTHER": "x"}


@pytest.mark.parametrize("environ", [{}, {"TACTFUL_PASSPHRASE": ""}])
def test_an_absent_or_empty_variable_is_no_passphrase(environ: dict[str, str]) -> None:
    assert take_from_environment(environ) is None


def test_a_passphrase_does_not_show_itself() -> None:
    secret = Passphrase("sesame")
    assert "sesame" not in f"{secret} {secret!r}"
    with pytest.raises(TypeError):
        json.dumps(secret)


def test_the_first_line_of_a_file_counts(tmp_path: Path) -> None:
    assert from_file(private(tmp_path / "p", "open sesame\nmore\n")).reveal() == "open sesame"


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = private(tmp_path / "p", "sesame\n")
    path.chmod(0o640)
    with pytest.raises(KeyUnavailable, match="chmod 600"):
        from_file(path)


def test_files_without_a_passphrase_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no passphrase file"):
        from_file(tmp_path / "none")
    with pytest.raises(KeyUnavailable, match="empty"):
        from_file(private(tmp_path / "p", "\n"))


@pytest.mark.parametrize("text", ["two\nlines", "a\x1bb", "\ud800"])
def test_only_one_line_of_text_goes_through_the_pipe(text: str) -> None:
    with pytest.raises(KeyUnavailable) as refused:
        to_bytes(Passphrase(text))
    assert text not in str(refused.value)


class Typist:
    """Answers prompts in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: str) -> None:
        self._answers = list(answers)
        monkeypatch.setattr(under_test, "can_ask", lambda: True)
        monkeypatch.setattr("getpass.getpass", self._answer)

    def _answer(self, _prompt: str) -> str:
        return self._answers.pop(0)

    @property
    def unused(self) -> list[str]:
        return self._answers


def test_a_new_passphrase_is_asked_for_until_both_are_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typist = Typist(monkeypatch, "", "one", "two", "three", "three")
    assert ask_for_new().reveal() == "three"
    assert typist.unused == []
    assert "not the same" in capsys.readouterr().err


def test_without_a_terminal_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "can_ask", lambda: False)
    with pytest.raises(PassphraseNeeded, match="TACTFUL_PASSPHRASE"):
        ask_for_new()


def lock(given: Passphrase | None) -> str:
    if given is None:
        raise PassphraseNeeded("It is locked.")
    if given.reveal() != "sesame":
        raise KeyUnavailable("The passphrase is wrong.")
    return "open"


def test_a_wrong_passphrase_may_be_typed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    Typist(monkeypatch, "salami", "", "sesame")
    assert unlocked(lock, None) == "open"


def test_the_third_wrong_passphrase_is_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    typist = Typist(monkeypatch, "a", "b", "c", "sesame")
    with pytest.raises(KeyUnavailable):
        unlocked(lock, None)
    assert typist.unused == ["sesame"]


def test_a_wrong_passphrase_that_was_given_is_not_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Typist(monkeypatch, "sesame")
    with pytest.raises(KeyUnavailable):
        unlocked(lock, Passphrase("wrong"))
