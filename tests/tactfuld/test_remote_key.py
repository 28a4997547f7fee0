"""The key for an endpoint comes from where its owner keeps it, and no sentence holds it."""

from __future__ import annotations

from pathlib import Path

import keyring
import pytest

from tactfuld.inference.errors import RemoteFailed
from tactfuld.remote_key import remote_key, store_command

HOST = "models.example"
KEY = "sk-0123456789"


def found(place: str | None, environ: dict[str, str] | None = None) -> str | None:
    key = remote_key(place, HOST, environ or {})
    return None if key is None else key.reveal()


def test_an_endpoint_may_want_no_key() -> None:
    assert found(None) is None


def test_a_variable_of_the_environment_has_it() -> None:
    assert found("env:BIG_KEY", {"BIG_KEY": f" {KEY}\n"}) == KEY


def test_a_credential_has_it(tmp_path: Path) -> None:
    (tmp_path / "big").write_text(f"{KEY}\n")
    assert found("credential:big", {"CREDENTIALS_DIRECTORY": str(tmp_path)}) == KEY


def test_the_keyring_has_it_under_the_name_that_the_command_stores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = {("tactful", f"remote {HOST}"): KEY}
    monkeypatch.setattr(keyring, "get_password", lambda *asked: kept.get(asked))
    assert found("keyring") == KEY
    assert store_command(HOST) == f"python -m keyring set tactful 'remote {HOST}'"


def locked(_service: str, _name: str) -> str:
    raise RuntimeError(f"locked, but it holds {KEY}")


@pytest.mark.parametrize(
    ("place", "environ", "named"),
    [
        ("env:BIG_KEY", {}, "variable BIG_KEY"),
        ("env:BIG_KEY", {"BIG_KEY": " "}, "variable BIG_KEY"),
        ("env:BIG_KEY", {"BIG_KEY": f"{KEY}\r\nX-Evil: 1"}, "variable BIG_KEY"),
        ("env:BIG_KEY", {"BIG_KEY": f"{KEY}\u20ac"}, "variable BIG_KEY"),
        ("env:BIG_KEY", {"BIG_KEY": KEY * 1000}, "variable BIG_KEY"),
        ("credential:big", {}, "credential big"),
        ("credential:big", {"CREDENTIALS_DIRECTORY": "/absent"}, "credential big"),
        ("keyring", {}, f"service tactful, name remote {HOST}"),
    ],
)
def test_a_key_that_is_not_there_or_none_is_told_by_its_place_alone(
    monkeypatch: pytest.MonkeyPatch, place: str, environ: dict[str, str], named: str
) -> None:
    monkeypatch.setattr(keyring, "get_password", locked)
    with pytest.raises(RemoteFailed, match=named) as caught:
        found(place, environ)
    assert KEY not in str(caught.value)
