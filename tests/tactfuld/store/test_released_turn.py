"""Which turns are kept, and the form of their records (SPEC.md §9)."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.vectors import reference

from tactful_core.errors import SealError
from tactful_core.sealing import TurnSealer
from tactful_core.values import AppId, Secret, SlotName, ViewName
from tactfuld.store import released_turn
from tactfuld.store.released_turn import (
    ReleasedTurn,
    Retention,
    TurnKey,
    TurnView,
    decode,
    encode,
    expired,
)

ROOT = Path(__file__).parents[3]
SPEC = (ROOT / "daemon" / "tactful_core" / "SPEC.md").read_text(encoding="utf-8")
VECTORS: dict[str, Any] = json.loads(
    (ROOT / "tests" / "vectors" / "turns.json").read_text(encoding="ascii")
)
KEY, KEY_ID, STORE = (bytes.fromhex(VECTORS[name]) for name in ("key", "key_id", "store_id"))
SEALER = TurnSealer(Secret(KEY), KEY_ID, STORE)
DAY = 86_400

Vector = dict[str, Any]


def vectors(kind: str) -> list[Any]:
    assert VECTORS[kind]
    return [pytest.param(vector, id=vector["name"]) for vector in VECTORS[kind]]


# --- the record ---------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", vectors("open"))
def test_turn_vector_opens_and_is_what_the_specification_says(vector: Vector) -> None:
    sealed, record = bytes.fromhex(vector["sealed"]), vector["record"].encode()
    nonce, number = bytes.fromhex(vector["nonce"]), vector["number"]
    plaintext = reference.entry_plaintext(record)
    assert sealed == reference.turn(KEY, KEY_ID, STORE, number, nonce, plaintext)
    turn = decode(SEALER.open(sealed, number))
    written = json.loads(record)
    assert (turn.app, turn.thread, turn.at, turn.query, turn.answer, turn.complete) == tuple(
        written[name] for name in ("app", "thread", "at", "query", "answer", "complete")
    )
    assert [(v.slot, v.view, v.fallback) for v in turn.views] == [
        (v["slot"], v["view"], v["fallback"]) for v in written["views"]
    ]


@pytest.mark.parametrize("vector", vectors("fail"))
def test_turn_vector_that_must_fail_does(vector: Vector) -> None:
    with pytest.raises(SealError) as refused:
        decode(SEALER.open(bytes.fromhex(vector["sealed"]), vector["number"]))
    assert "marzipan" not in repr(refused.value)
    assert "marzipan" not in repr(refused.value.__cause__)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
turns = st.builds(
    ReleasedTurn,
    texts.map(AppId),
    st.none() | texts,
    st.integers(0, 2**40),
    texts,
    texts,
    st.booleans(),
    st.lists(
        st.builds(TurnView, texts.map(SlotName), texts.map(ViewName), st.booleans()), max_size=3
    ).map(tuple),
)


@given(turns)
def test_decoding_gives_the_turn_that_was_encoded(turn: ReleasedTurn) -> None:
    assert decode(encode(turn)) == turn


def test_record_has_the_fields_of_the_specification() -> None:
    view = TurnView(SlotName("food"), ViewName("generic"), fallback=True)
    record = json.loads(encode(ReleasedTurn(AppId("meals"), None, 1, "q", "a", True, (view,))))
    section = SPEC[SPEC.index("## 9. ") : SPEC.index("## 10. ")]
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| (.*) \|$", section, re.MULTILINE)
    named = [name for cell, _ in rows for name in re.findall(r"`(\w+)`", cell)]
    assert list(record) == named
    (views,) = (text for cell, text in rows if cell == "`views`")
    assert list(record["views"][0]) == re.findall(r"`(\w+)`", views)


def test_repr_shows_neither_question_nor_answer() -> None:
    shown = repr(ReleasedTurn(AppId("meals"), None, 1, "a marker", "a marker", True, ()))
    assert "marker" not in shown
    assert "meals" in shown


# --- retention ----------------------------------------------------------------------------------

keys = st.builds(
    TurnKey,
    st.sampled_from("ab").map(AppId),
    st.sampled_from([None, "x", "y"]),
    st.integers(0, 10 * DAY),
)
indices = st.lists(keys, max_size=30).map(lambda found: dict(enumerate(found, start=1)))


@given(indices, st.integers(0, 5), st.integers(1, 9), st.integers(0, 12 * DAY))
def test_kept_are_the_newest_of_each_thread_that_are_young_enough(
    index: dict[int, TurnKey], turns: int, days: int, now: int
) -> None:
    gone = expired(index, Retention(turns, days), now)
    kept = {number: key for number, key in index.items() if number not in gone}
    young = {n: key for n, key in index.items() if key.at >= now - days * DAY}
    assert kept.keys() <= young.keys()
    counts = Counter((key.app, key.thread) for key in kept.values())
    assert all(count <= turns for count in counts.values())
    for number in young.keys() - kept.keys():
        key = index[number]
        newer = [n for n, other in kept.items() if n > number and other.app == key.app]
        same = [n for n in newer if index[n].thread == key.thread]
        assert len(same) >= turns


@given(indices, st.integers(0, 5), st.integers(1, 9), st.integers(0, 12 * DAY))
def test_expiring_twice_takes_nothing_more(
    index: dict[int, TurnKey], turns: int, days: int, now: int
) -> None:
    retention = Retention(turns, days)
    gone = expired(index, retention, now)
    kept = {number: key for number, key in index.items() if number not in gone}
    assert expired(kept, retention, now) == frozenset()


def test_app_that_begins_ever_new_threads_pushes_out_its_own_turns_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(released_turn, "MOST_OF_ONE_APP", 3)
    index = {1: TurnKey(AppId("guest"), None, 0)}
    index |= {number: TurnKey(AppId("meals"), f"t{number}", 0) for number in range(2, 8)}
    assert expired(index, Retention(50, 90), 0) == {2, 3, 4}
