"""Entries have one canonical form; anything else in a ledger is unreadable."""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tactful_core.entries import (
    Cell,
    Charge,
    Entry,
    EntryId,
    EpochOpened,
    FusedReserved,
    FusedSettled,
    Mechanism,
    UnprotectedRead,
    UnreadableEntry,
    ViewReleased,
    decode,
    encode,
    new_entry_id,
)
from tactful_core.errors import CoreError
from tactful_core.fusion import HIGHEST_ALPHA, FusionParameters
from tactful_core.ledger import replay
from tactful_core.mixtures import STEPS
from tactful_core.values import AppId, AttributeName, Position, SlotName, Units, ViewName

counts = st.integers(1, 1 << 70)
names = st.text(min_size=1, max_size=12)
positions = st.frozensets(st.integers(1, 10**6).map(Position), max_size=6)
ids = st.text("0123456789abcdef", min_size=32, max_size=32).map(EntryId)
parameters = st.builds(
    FusionParameters.in_steps,
    st.integers(2, HIGHEST_ALPHA),
    st.integers(1, STEPS - 1),
    st.integers(1, 64 * STEPS),
)
epochs = st.builds(
    EpochOpened,
    id=ids,
    epoch=counts,
    period=st.integers(0, 1 << 40),
    fusion=st.none() | parameters,
)
charges = st.builds(
    Charge,
    id=ids,
    epoch=counts,
    app=names.map(AppId),
    slot=names.map(SlotName),
    mechanism=st.sampled_from(Mechanism),
    positions=positions,
    charged=st.frozensets(names.map(AttributeName), max_size=4),
    units=counts.map(Units),
    policy=names,
)
views = st.builds(
    ViewReleased,
    id=ids,
    epoch=counts,
    charge=ids,
    slot=names.map(SlotName),
    mechanism=st.sampled_from(Mechanism),
    candidates=st.lists(names.map(ViewName), max_size=4).map(tuple),
    view=names.map(ViewName),
    units=counts.map(Units),
)
reads = st.builds(
    UnprotectedRead,
    id=ids,
    epoch=counts,
    app=names.map(AppId),
    slot=names.map(SlotName),
    positions=positions,
    policy=names,
)
cells = st.builds(
    Cell,
    positions=positions,
    charged=st.frozensets(names.map(AttributeName), max_size=4),
)
reservations = st.builds(
    FusedReserved,
    id=ids,
    epoch=counts,
    app=names.map(AppId),
    slots=st.frozensets(names.map(SlotName), max_size=3),
    cells=st.lists(cells, max_size=4).map(tuple),
    unprotected=positions,
    draws=st.integers(0, 1 << 40),
    policy=names,
)
settlements = st.builds(
    FusedSettled, id=ids, epoch=counts, reservation=ids, draws=st.integers(0, 1 << 40)
)
entries = st.one_of(epochs, charges, views, reads, reservations, settlements)

ID = EntryId("0123456789abcdef" * 2)
CHARGE = Charge(
    id=ID,
    epoch=3,
    app=AppId("meals"),
    slot=SlotName("food"),
    mechanism=Mechanism.EXPONENTIAL,
    positions=frozenset({Position(3), Position(2)}),
    charged=frozenset({AttributeName("diabetes"), AttributeName("debt")}),
    units=Units(480_480_000),
    policy="5ff2",
)
FUSING = EpochOpened(ID, 1, 0, FusionParameters.in_steps(3, STEPS // 2, STEPS // 512))
RESERVED = FusedReserved(
    id=ID,
    epoch=1,
    app=AppId("meals"),
    slots=frozenset({SlotName("food"), SlotName("finance")}),
    cells=(
        Cell(frozenset({Position(5), Position(4)}), frozenset({AttributeName("debt")})),
        Cell(frozenset({Position(3)}), CHARGE.charged),
    ),
    unprotected=frozenset({Position(6)}),
    draws=256,
    policy="5ff2",
)
SETTLED = FusedSettled(ID, 1, ID, 0)
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
        b'{"app":"meals","charged":["debt","diabetes"],"epoch":3,'
        b'"id":"0123456789abcdef0123456789abcdef","kind":"charge",'
        b'"mechanism":"exponential","policy":"5ff2","positions":[2,3],"slot":"food",'
        b'"units":480480000}'
    )


def test_the_bytes_of_the_other_kinds_never_change() -> None:
    one, two = EntryId("1" * 32), EntryId("2" * 32)
    assert encode(EpochOpened(one, 1, 20_000)) == (
        b'{"epoch":1,"id":"11111111111111111111111111111111","kind":"epoch_opened","period":20000}'
    )
    read = UnprotectedRead(one, 1, AppId("a"), SlotName("s"), frozenset({Position(7)}), "p")
    assert encode(read) == (
        b'{"app":"a","epoch":1,"id":"11111111111111111111111111111111",'
        b'"kind":"unprotected_read","policy":"p","positions":[7],"slot":"s"}'
    )
    view = ViewReleased(
        id=two,
        epoch=1,
        charge=one,
        slot=SlotName("s"),
        mechanism=Mechanism.RANDOMIZED_RESPONSE,
        candidates=(ViewName("v"), ViewName("generic")),
        view=ViewName("v"),
        units=Units(5),
    )
    assert encode(view) == (
        b'{"candidates":["v","generic"],"charge":"11111111111111111111111111111111","epoch":1,'
        b'"id":"22222222222222222222222222222222","kind":"view_released",'
        b'"mechanism":"randomized_response","slot":"s","units":5,"view":"v"}'
    )


def test_the_bytes_of_fused_draws_never_change() -> None:
    """No field names a token, a weight or a distribution: charges are data-independent."""
    assert encode(FUSING) == (
        b'{"epoch":1,"fusion":{"alpha":3,"divergence":2097152,"limit":536870912},'
        b'"id":"0123456789abcdef0123456789abcdef","kind":"epoch_opened","period":0}'
    )
    assert encode(RESERVED) == (
        b'{"app":"meals","cells":[{"charged":["debt"],"positions":[4,5]},'
        b'{"charged":["debt","diabetes"],"positions":[3]}],"draws":256,"epoch":1,'
        b'"id":"0123456789abcdef0123456789abcdef","kind":"fused_reserved","policy":"5ff2",'
        b'"slots":["finance","food"],"unprotected":[6]}'
    )
    assert encode(SETTLED) == (
        b'{"draws":0,"epoch":1,"id":"0123456789abcdef0123456789abcdef","kind":"fused_settled",'
        b'"reservation":"0123456789abcdef0123456789abcdef"}'
    )


def test_the_vectors_hold_fused_draws_as_they_are_written() -> None:
    file = Path(__file__).parents[1] / "vectors" / "entries.json"
    records = [each["record"].encode() for each in json.loads(file.read_text())["open"]]
    found = [decode(record) for record in records if b"fus" in record]
    assert [type(entry) for entry in found] == [EpochOpened, FusedReserved, FusedSettled]
    ledger = replay([EpochOpened(ID, 1, 0), *found])
    assert [made.draws for made in ledger.fused.ended.values()] == [256]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (EpochOpened, {"id", "epoch", "period", "fusion"}),
        (
            Charge,
            {"id", "epoch", "app", "slot", "mechanism", "positions", "charged", "units", "policy"},
        ),
        (
            ViewReleased,
            {"id", "epoch", "charge", "slot", "mechanism", "candidates", "view", "units"},
        ),
        (UnprotectedRead, {"id", "epoch", "app", "slot", "positions", "policy"}),
        (
            FusedReserved,
            {"id", "epoch", "app", "slots", "cells", "unprotected", "draws", "policy"},
        ),
        (FusedSettled, {"id", "epoch", "reservation", "draws"}),
    ],
)
def test_an_entry_has_no_field_for_a_score_a_query_or_content(
    kind: type[Entry], expected: set[str]
) -> None:
    """A charge is written before the draw, so it has none for a view either."""
    assert {field.name for field in fields(kind)} == expected


def test_ids_are_random_and_fit_an_entry() -> None:
    made = {new_entry_id() for _ in range(100)}
    assert len(made) == 100
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in made)


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
    "an id that is a number": with_value("id", 7),
    "an empty id": with_value("id", ""),
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


OPENED = EpochOpened(ID, 1, 0)
VIEW = ViewReleased(
    id=ID,
    epoch=1,
    charge=ID,
    slot=SlotName("food"),
    mechanism=Mechanism.EXPONENTIAL,
    candidates=(ViewName("generic"), ViewName("budget")),
    view=ViewName("budget"),
    units=Units(1),
)


def changed_fusion(key: str, value: object) -> Callable[[Record], object]:
    return lambda record: {**record, "fusion": {**record["fusion"], key: value}}


def changed_cell(key: str, value: object) -> Callable[[Record], object]:
    return lambda record: {**record, "cells": [{**record["cells"][0], key: value}]}


@pytest.mark.parametrize(
    ("entry", "spoil"),
    [
        pytest.param(OPENED, with_value("period", -1), id="a period before the first"),
        pytest.param(OPENED, with_value("period", True), id="a period that is true"),
        pytest.param(OPENED, without("period"), id="no period"),
        pytest.param(OPENED, with_value("units", 1), id="an epoch with units"),
        pytest.param(OPENED, with_value("fusion", None), id="fusion that is null"),
        pytest.param(FUSING, with_value("fusion", {}), id="fusion without parameters"),
        pytest.param(FUSING, with_value("fusion", [3, 4, 5]), id="fusion that is a list"),
        pytest.param(FUSING, changed_fusion("alpha", 1), id="an order of 1"),
        pytest.param(FUSING, changed_fusion("alpha", 33), id="an order above 32"),
        pytest.param(FUSING, changed_fusion("limit", STEPS), id="a limit of 1"),
        pytest.param(FUSING, changed_fusion("divergence", 0.5), id="a divergence that is a float"),
        pytest.param(FUSING, changed_fusion("delta", 1), id="fusion with a delta"),
        pytest.param(RESERVED, with_value("draws", -1), id="draws below zero"),
        pytest.param(RESERVED, with_value("draws", 2.0), id="draws that are a float"),
        pytest.param(RESERVED, with_value("cells", {}), id="cells that are a mapping"),
        pytest.param(RESERVED, with_value("cells", [[3]]), id="a cell that is a list"),
        pytest.param(RESERVED, with_value("cells", [{"positions": [3]}]), id="a free cell"),
        pytest.param(RESERVED, changed_cell("lambda", 1), id="a cell with a weight"),
        pytest.param(RESERVED, changed_cell("positions", [5, 4]), id="a cell out of order"),
        pytest.param(RESERVED, with_value("slots", ["food", "finance"]), id="slots out of order"),
        pytest.param(SETTLED, without("reservation"), id="a settlement of nothing"),
        pytest.param(SETTLED, with_value("draws", True), id="draws that are true"),
        pytest.param(VIEW, without("charge"), id="a view that nothing paid for"),
        pytest.param(VIEW, with_value("candidates", "budget"), id="candidates that are a text"),
        pytest.param(VIEW, with_value("candidates", [""]), id="a candidate without a name"),
        pytest.param(VIEW, with_value("view", ["budget"]), id="a view that is a list"),
        pytest.param(VIEW, with_value("positions", [1]), id="a view with positions"),
    ],
)
def test_refuses_a_record_of_another_kind_with(
    entry: Entry, spoil: Callable[[Record], object]
) -> None:
    with pytest.raises(UnreadableEntry):
        decode(canonical(spoil(json.loads(encode(entry)))))


def test_the_order_of_candidates_is_kept() -> None:
    """It is that of the draw, so it is no set and not sorted."""
    swapped = replace(VIEW, candidates=tuple(reversed(VIEW.candidates)))
    assert encode(swapped) != encode(VIEW)
    assert decode(encode(swapped)) == swapped


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
