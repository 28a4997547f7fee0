"""An app keeps a few values for itself, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tactful import app_state
from tactful.app_state import MOST_BYTES, MOST_KEY, MOST_VALUES, STATE_FILE, AppState
from tactful.errors import DoesNotFit, InvalidParams


async def test_what_was_kept_is_there_in_the_next_process(tmp_path: Path) -> None:
    state = AppState(tmp_path)
    await state.set("seen", {"days": [1, 2.5, None, True, "é"]})
    await state.set("gone", 1)
    await state.delete("gone")
    await state.delete("never there")
    again = AppState(tmp_path)
    assert await again.keys() == ("seen",)
    assert await again.get("seen") == {"days": [1, 2.5, None, True, "é"]}
    assert await again.get("gone", "nothing") == "nothing"
    assert await again.get("gone") is None


async def test_whoever_changes_a_value_changes_a_copy(tmp_path: Path) -> None:
    state, kept = AppState(tmp_path), [1]
    await state.set("list", kept)  # type: ignore[arg-type]
    kept.append(2)
    found = await state.get("list")
    assert found == [1]
    assert isinstance(found, list)
    found.append(3)
    assert await state.get("list") == [1]


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, b"bytes", object()])
async def test_refuses_what_json_cannot_say(tmp_path: Path, value: object) -> None:
    state = AppState(tmp_path)
    with pytest.raises(InvalidParams):
        await state.set("x", value)  # type: ignore[arg-type]
    assert not (tmp_path / STATE_FILE).exists()


@pytest.mark.parametrize("key", ["", "k" * (MOST_KEY + 1)])
async def test_refuses_names_that_are_no_names(tmp_path: Path, key: str) -> None:
    with pytest.raises(InvalidParams):
        await AppState(tmp_path).set(key, 1)


async def test_what_does_not_fit_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = AppState(tmp_path)
    await state.set("small", 1)
    with pytest.raises(DoesNotFit):
        await state.set("large", "x" * MOST_BYTES)
    assert await state.keys() == ("small",)
    monkeypatch.setattr(app_state, "MOST_VALUES", 1)
    with pytest.raises(DoesNotFit):
        await state.set("another", 2)
    await state.set("small", 3)
    assert await AppState(tmp_path).get("small") == 3
    assert MOST_VALUES == 1000


@pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff"])
async def test_a_damaged_file_counts_as_empty_and_is_put_aside(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / STATE_FILE).write_bytes(content)
    state = AppState(tmp_path)
    assert await state.keys() == ()
    await state.set("x", 1)
    assert (tmp_path / STATE_FILE).with_suffix(".damaged").read_bytes() == content
    assert await AppState(tmp_path).get("x") == 1


async def test_a_process_that_is_killed_while_it_writes_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = AppState(tmp_path)
    await state.set("x", 1)

    def killed(_descriptor: int) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr("os.fsync", killed)
    with pytest.raises(OSError, match="gone"):
        await state.set("x", 2)
    monkeypatch.undo()
    assert await AppState(tmp_path).get("x") == 1
    assert await state.get("x") == 1
