"""Entries have one canonical form; anything else in a ledger is unreadable."""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tactful_core.entries import (
    Charge,
    Entry,
    EpochOpened,
    Mechanism,
    UnprotectedRead,
    UnreadableEntry,
    decode,
    encode,
)
from tactful_core.errors import CoreError
from tactful_core.values import AppId, AttributeName, Position, SlotName, Units

counts = st.integers(1, 1 << 70)
names = st.text(min_size=1, max_size=12)
positions = st.frozensets(st.integers(1, 10**6).map(Position), max_size=6)
epochs = st.builds(EpochOpened, epoch=counts)
charges = st.builds(
    Charge,
    epoch=counts,
    app=names.map(AppId),
    slot=names.map(SlotName),
    mechanism=st.sampled_from(Mechanism),
    positions=positions,
    charged=st.frozensets(names.map(AttributeName), max_size=4),
    units=counts.map(Units),
    policy=names,
)
reads = st.builds(
    UnprotectedRead,
    epoch=counts,
    app=names.map(AppId),
    slot=names.map(SlotName),
    positions=positions,
    policy=names,
)
entries = st.one_of(epochs, charges, reads)

CHARGE = Charge(
    epoch=3,
    app=AppId("meals"),
    slot=SlotName("food"),
    mechanism=Mechanism.EXPONENTIAL,
    positions=frozenset({Position(3), Position(2)}),
    charged=frozenset({AttributeName("diabetes"), AttributeName("debt")}),
    units=Units(480_480_000),
    policy="5ff2",
)
Record = dict[str, Any]


def canonical(record: object) -> bytes:
    return json.dumps(record, sort_keys=True, separators=(",", ":")).encode()


# ---- one form -----------------------------------------------------------------------------------


@given(entries)
def test_what_was_encoded_decodes_to_the_same_entry(entry: Entry) -> None:
    assert decode(encode(entry)) == entry


@given(entries, entries)
def test_different_entries_have_different_bytes(one: Entry, other: Entry) -> None:
    assert (encode(one) == encode(other)) == (one == other)


def test_the_bytes_of_a_charge_never_change() -> None:
    """Written ledgers must stay readable, so the form is pinned."""
    assert encode(CHARGE) == (
        b'{"app":"meals","charged":["debt","diabetes"],"epoch":3,"kind":"charge",'
        b'"mechanism":"exponential","policy":"5ff2","positions":[2,3],"slot":"food",'
        b'"units":480480000}'
    )


def test_the_bytes_of_the_other_kinds_never_change() -> None:
    assert encode(EpochOpened(1)) == b'{"epoch":1,"kind":"epoch_opened"}'
    read = UnprotectedRead(1, AppId("a"), SlotName("s"), frozenset({Position(7)}), "p")
    assert encode(read) == (
        b'{"app":"a","epoch":1,"kind":"unprotected_read","policy":"p","positions":[7],"slot":"s"}'
    )


def test_an_entry_has_no_field_for_a_view_a_score_or_content() -> None:
    """An entry is written before the draw and shows only public input and charges."""
    assert {field.name for field in fields(Charge)} == {
        "epoch",
        "app",
        "slot",
        "mechanism",
        "positions",
        "charged",
        "units",
        "policy",
    }


# ---- everything else ----------------------------------------------------------------------------


def without(key: str) -> Callable[[Record], object]:
    return lambda record: {k: v for k, v in record.items() if k != key}


def with_value(key: str, value: object) -> Callable[[Record], object]:
    return lambda record: {**record, key: value}


SPOILT: dict[str, Callable[[Record], object]] = {
    **{f"without {key}": without(key) for key in json.loads(encode(CHARGE))},
    "an extra field": with_value("note", 1),
    "an unknown kind": with_value("kind", "refund"),
    "a kind that is a list": with_value("kind", []),
    "no kind at all": with_value("kind", None),
    "an unknown mechanism": with_value("mechanism", "argmax"),
    "a mechanism that is a list": with_value("mechanism", []),
    "no units": with_value("units", 0),
    "negative units": with_value("units", -1),
    "units that are a float": with_value("units", 1.0),
    "units that are a text": with_value("units", "1"),
    "units that are true": with_value("units", True),
    "epoch zero": with_value("epoch", 0),
    "an empty name": with_value("app", ""),
    "a name that is a number": with_value("slot", 1),
    "positions out of order": with_value("positions", [3, 2]),
    "a position twice": with_value("positions", [2, 2, 3]),
    "position zero": with_value("positions", [0, 2]),
    "a position that is a text": with_value("positions", ["2"]),
    "positions that are a text": with_value("positions", "23"),
    "positions that are a mapping": with_value("positions", {"2": 3}),
    "attributes out of order": with_value("charged", ["diabetes", "debt"]),
    "an attribute twice": with_value("charged", ["debt", "debt"]),
    "attributes that are null": with_value("charged", None),
    "a list around it": lambda record: [record],
    "a text": lambda record: "charge",
    "a number": lambda record: 3,
    "nothing": lambda record: None,
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_refuses_a_record_with(spoil: Callable[[Record], object]) -> None:
    with pytest.raises(UnreadableEntry):
        decode(canonical(spoil(json.loads(encode(CHARGE)))))


GOOD = encode(CHARGE)
NOT_CANONICAL: dict[str, bytes] = {
    "white space": GOOD.replace(b",", b", "),
    "a newline at the end": GOOD + b"\n",
    "a second record": GOOD + GOOD,
    "fields in another order": json.dumps(
        dict(reversed(json.loads(GOOD).items())), separators=(",", ":")
    ).encode(),
    "a field twice": GOOD[:-1] + b',"units":480480000}',
    "an escaped letter": GOOD.replace(b"meals", b"meal\\u0073"),
    "another encoding": GOOD.decode().encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf" + GOOD,
    "units with an exponent": GOOD.replace(b"480480000", b"48048e4"),
    "a negative zero": GOOD.replace(b"480480000", b"-0"),
    "not a number": GOOD.replace(b"480480000", b"NaN"),
    "a number of ten thousand digits": GOOD.replace(b"480480000", b"9" * 10_000),
    "a million open brackets": b"[" * 1_000_000,
    "half of it": GOOD[: len(GOOD) // 2],
    "nothing": b"",
    "bytes that are no text": b"\xff\xfe\xfd",
}


@pytest.mark.parametrize("data", NOT_CANONICAL.values(), ids=NOT_CANONICAL)
def test_refuses_bytes_with(data: bytes) -> None:
    assert data != GOOD
    with pytest.raises(UnreadableEntry):
        decode(data)


@given(st.binary(max_size=60))
def test_refuses_arbitrary_bytes(data: bytes) -> None:
    with pytest.raises(UnreadableEntry):
        decode(data)


@given(entries, st.data())
def test_no_single_changed_byte_decodes_to_the_same_entry(
    entry: Entry, data: st.DataObject
) -> None:
    good = encode(entry)
    place = data.draw(st.integers(0, len(good) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda value: value != good[place]))
    changed = good[:place] + bytes([byte]) + good[place + 1 :]
    with suppress(UnreadableEntry):
        assert decode(changed) != entry


def test_the_error_says_nothing_of_what_was_read() -> None:
    with pytest.raises(UnreadableEntry) as refused:
        decode(GOOD.replace(b'"charge"', b'"refund"'))
    assert isinstance(refused.value, CoreError)
    assert not re.search("meals|food|debt|refund", str(refused.value))
