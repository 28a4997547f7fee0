"""Tokens of outside programs: shown once, kept as hashes, ended at once."""

from __future__ import annotations

import hashlib
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tactful.errors import NotFound, Unusable
from tactful.wire import Authenticate
from tactful_core.values import AppId
from tactfuld.apps.tokens import FILE_NAME, AppTokens

MEALS, MONEY = AppId("meals"), AppId("money")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / FILE_NAME


def test_issued_token_names_its_app_also_after_a_restart(path: Path) -> None:
    tokens = AppTokens.load(path)
    meals, money = tokens.issue(MEALS), tokens.issue(MONEY)
    for loaded in (tokens, AppTokens.load(path)):
        assert loaded.verify(meals) == MEALS
        assert loaded.verify(money) == MONEY
        assert loaded.apps == {MEALS, MONEY}


def test_token_has_256_bits_of_urlsafe_text_that_the_protocol_takes(path: Path) -> None:
    tokens = AppTokens.load(path)
    issued = {tokens.issue(MEALS) for _ in range(20)}
    assert len(issued) == 20
    for token in issued:
        assert re.fullmatch(r"[A-Za-z0-9_-]{43}", token)
        Authenticate(token=token)


def test_file_holds_only_the_hash_and_only_the_owner_can_read_it(path: Path) -> None:
    token = AppTokens.load(path).issue(MEALS)
    stored = path.read_text(encoding="ascii")
    assert token not in stored
    assert json.loads(stored)["sha256"] == {"meals": hashlib.sha256(token.encode()).hexdigest()}
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == [FILE_NAME]


@pytest.mark.parametrize(
    "wrong", ["", "x", "\ud800", "é" * 50, hashlib.sha256(b"x").hexdigest()], ids=ascii
)
def test_wrong_token_is_nobodys(path: Path, wrong: str) -> None:
    tokens = AppTokens.load(path)
    assert tokens.verify(wrong) is None
    token = tokens.issue(MEALS)
    assert tokens.verify(wrong) is None
    assert tokens.verify(token[:-1]) is None
    assert tokens.verify(hashlib.sha256(token.encode()).hexdigest()) is None


def test_issuing_another_token_ends_the_old_one(path: Path) -> None:
    tokens = AppTokens.load(path)
    old, new = tokens.issue(MEALS), tokens.issue(MEALS)
    for loaded in (tokens, AppTokens.load(path)):
        assert loaded.verify(old) is None
        assert loaded.verify(new) == MEALS


def test_revoked_token_is_nobodys_and_others_stay(path: Path) -> None:
    tokens = AppTokens.load(path)
    meals, money = tokens.issue(MEALS), tokens.issue(MONEY)
    tokens.revoke(MEALS)
    for loaded in (tokens, AppTokens.load(path)):
        assert loaded.verify(meals) is None
        assert loaded.verify(money) == MONEY


def test_revoking_what_was_never_issued_is_refused(path: Path) -> None:
    with pytest.raises(NotFound, match="meals"):
        AppTokens.load(path).revoke(MEALS)
    assert not path.exists()


def test_every_hash_is_compared_whichever_matches(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of an answer must not tell which app's token came close, or came first."""
    tokens = AppTokens.load(path)
    issued = [tokens.issue(AppId(name)) for name in ("a", "b", "c")]
    compared: list[bytes] = []

    def compare(_given: bytes, known: bytes) -> bool:
        compared.append(known)
        return _given == known

    monkeypatch.setattr("tactfuld.apps.tokens.hmac.compare_digest", compare)
    for token in (*issued, "nobody's"):
        compared.clear()
        tokens.verify(token)
        assert len(compared) == 3


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        "[]",
        '{"version": 2, "sha256": {}}',
        '{"sha256": {"meals": "00"}}',
        '{"sha256": {"Not A Name": "' + "0" * 64 + '"}}',
        '{"sha256": {}, "more": 1}',
    ],
)
def test_damaged_file_admits_nobody_and_says_what_to_do(path: Path, damaged: str) -> None:
    path.parent.mkdir()
    path.write_text(damaged, encoding="utf-8")
    with pytest.raises(Unusable, match=r"tactful apps grant") as refused:
        AppTokens.load(path)
    assert str(path) in str(refused.value)


def test_unreadable_file_is_a_sentence(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(Unusable, match="could not be read"):
        AppTokens.load(path)


def test_change_that_cannot_be_written_does_not_count(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = AppTokens.load(path)
    old = tokens.issue(MEALS)

    def full(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tactfuld.apps.tokens.os.fsync", full)
    with pytest.raises(Unusable, match="No space left"):
        tokens.issue(MEALS)
    with pytest.raises(Unusable, match="No space left"):
        tokens.revoke(MEALS)
    assert tokens.verify(old) == AppTokens.load(path).verify(old) == MEALS
    assert [entry.name for entry in path.parent.iterdir()] == [FILE_NAME]


def test_changes_from_many_threads_are_all_kept(path: Path) -> None:
    tokens = AppTokens.load(path)
    names = [AppId(f"app{number}") for number in range(12)]
    with ThreadPoolExecutor(6) as threads:
        issued = dict(zip(names, threads.map(tokens.issue, names), strict=True))
    loaded = AppTokens.load(path)
    assert {name: loaded.verify(token) for name, token in issued.items()} == {n: n for n in names}
