"""Sealing keeps to SPEC.md: what it must open, what must fail, and what sizes may tell."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.vectors import reference

from tactful_core.errors import CapacityError, ContractError, SealError
from tactful_core.sealing import (
    BYTES_PER_TOKEN,
    ChainSealer,
    Memory,
    PassphraseParameters,
    RowSealer,
    capacity_bytes,
    key_from_passphrase,
    new_id,
    new_key,
    unwrap_key,
    wrap_key,
)
from tactful_core.values import Position, Secret

VECTORS = Path(__file__).parents[1] / "vectors"
CAPACITY = 48
STORE, KEY_ID = b"s" * 16, b"k" * 16

Vector = dict[str, Any]


def vectors(file: str, kind: str) -> list[Any]:
    """The vectors of one file as test parameters, each with the values that all of them share."""
    document = json.loads((VECTORS / file).read_text(encoding="utf-8"))
    shared = {name: value for name, value in document.items() if name not in ("open", "fail")}
    found = [pytest.param({**shared, **vector}, id=vector["name"]) for vector in document[kind]]
    assert found, f"{file} has no vectors that must {kind}"
    return found


def raw(vector: Vector, name: str) -> bytes:
    return bytes.fromhex(vector[name])


def row_sealer(vector: Vector) -> RowSealer:
    key = Secret(raw(vector, "key"))
    return RowSealer(key, raw(vector, "key_id"), raw(vector, "store_id"), vector["capacity"])


def chain_sealer(vector: Vector) -> ChainSealer:
    key = Secret(raw(vector, "key"))
    return ChainSealer(key, raw(vector, "key_id"), raw(vector, "store_id"))


# --- vectors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", vectors("rows.json", "open"))
def test_row_vector_opens(vector: Vector) -> None:
    opened = row_sealer(vector).open(raw(vector, "sealed"), vector["position"], vector["version"])
    text = vector["text"]
    assert opened.reveal() == (None if text is None else Memory(text, vector["written_at"]))


@pytest.mark.parametrize("vector", vectors("rows.json", "open"))
def test_row_vector_is_what_the_specification_says(vector: Vector) -> None:
    text = vector["text"]
    plaintext = reference.row_plaintext(
        0 if text is None else 1, vector["written_at"], (text or "").encode(), vector["capacity"]
    )
    sealed = reference.row(
        raw(vector, "key"),
        raw(vector, "key_id"),
        raw(vector, "store_id"),
        vector["position"],
        vector["version"],
        raw(vector, "nonce"),
        plaintext,
    )
    assert sealed == raw(vector, "sealed")


@pytest.mark.parametrize("vector", vectors("rows.json", "fail"))
def test_row_vector_fails(vector: Vector) -> None:
    with pytest.raises(SealError):
        row_sealer(vector).open(raw(vector, "sealed"), vector["position"], vector["version"])


@pytest.mark.parametrize("vector", vectors("roots.json", "open"))
def test_root_vector_is_what_the_specification_says(vector: Vector) -> None:
    parts = [bytes.fromhex(part) for part in vector["parts"]]
    expected = raw(vector, "root")
    assert expected == reference.root(
        raw(vector, "key"), raw(vector, "store_id"), vector["version"], parts
    )
    assert row_sealer(vector).root_mac(vector["version"], parts) == expected
    row_sealer(vector).check_root(vector["version"], parts, expected)


@pytest.mark.parametrize("vector", vectors("roots.json", "fail"))
def test_root_vector_fails(vector: Vector) -> None:
    parts = [bytes.fromhex(part) for part in vector["parts"]]
    with pytest.raises(SealError):
        row_sealer(vector).check_root(vector["version"], parts, raw(vector, "root"))


@pytest.mark.parametrize("vector", vectors("entries.json", "open"))
def test_entry_vector_opens_and_is_what_the_specification_says(vector: Vector) -> None:
    record = vector["record"].encode()
    sealed, previous = raw(vector, "sealed"), raw(vector, "previous")
    assert sealed == reference.entry(
        raw(vector, "key"),
        raw(vector, "key_id"),
        raw(vector, "store_id"),
        vector["sequence"],
        previous,
        raw(vector, "nonce"),
        reference.entry_plaintext(record),
    )
    assert chain_sealer(vector).open(sealed, vector["sequence"], previous) == record


def test_entry_vectors_form_a_chain() -> None:
    chain: list[Vector] = [parameter.values[0] for parameter in vectors("entries.json", "open")]
    previous = ChainSealer.FIRST
    for number, vector in enumerate(chain, start=1):
        assert vector["sequence"] == number
        assert raw(vector, "previous") == previous
        previous = ChainSealer.link(raw(vector, "sealed"))


@pytest.mark.parametrize("vector", vectors("entries.json", "fail"))
def test_entry_vector_fails(vector: Vector) -> None:
    with pytest.raises(SealError):
        chain_sealer(vector).open(
            raw(vector, "sealed"), vector["sequence"], raw(vector, "previous")
        )


def wrap_context(vector: Vector) -> bytes:
    purpose: str = vector["purpose"]
    return b"tactful/1 wrap " + purpose.encode() + raw(vector, "store_id") + raw(vector, "key_id")


@pytest.mark.parametrize("vector", vectors("wrapped_keys.json", "open"))
def test_wrapped_key_vector_opens_and_is_what_the_specification_says(vector: Vector) -> None:
    assert raw(vector, "wrapped") == reference.wrap(
        raw(vector, "kek"),
        raw(vector, "key"),
        vector["purpose"].encode(),
        raw(vector, "store_id"),
        raw(vector, "key_id"),
        raw(vector, "nonce"),
    )
    kek = Secret(raw(vector, "kek"))
    key = unwrap_key(kek, raw(vector, "wrapped"), wrap_context(vector))
    assert key.reveal() == raw(vector, "key")


@pytest.mark.parametrize("vector", vectors("wrapped_keys.json", "fail"))
def test_wrapped_key_vector_fails(vector: Vector) -> None:
    with pytest.raises(SealError):
        unwrap_key(Secret(raw(vector, "kek")), raw(vector, "wrapped"), wrap_context(vector))


@pytest.mark.parametrize("vector", vectors("passphrases.json", "open"))
def test_passphrase_vector_gives_its_key(vector: Vector) -> None:
    parameters = PassphraseParameters(
        salt=raw(vector, "salt"),
        iterations=vector["iterations"],
        lanes=vector["lanes"],
        memory_kib=vector["memory_kib"],
    )
    kek = key_from_passphrase(Secret(vector["passphrase"]), parameters)
    assert kek.reveal() == raw(vector, "kek")


def test_recorded_parameters_are_no_cheaper_than_the_second_recommendation_of_rfc_9106() -> None:
    parameters = PassphraseParameters(salt=bytes(16))
    assert parameters.iterations >= 3
    assert parameters.lanes >= 4
    assert parameters.memory_kib >= 64 * 1024


# --- rows ---------------------------------------------------------------------------------------


def sealer(key: Secret[bytes] | None = None) -> RowSealer:
    return RowSealer(key or new_key(), KEY_ID, STORE, CAPACITY)


texts = st.text(st.characters(codec="utf-8"), max_size=CAPACITY).filter(
    lambda text: len(text.encode()) <= CAPACITY
)
memories = st.none() | st.builds(Memory, texts, st.integers(0, 2**64 - 1))
positions = st.integers(1, 2**32 - 1).map(Position)
versions = st.integers(1, 2**64 - 1)


@given(memory=memories, position=positions, version=versions)
def test_what_was_sealed_opens_again(
    memory: Memory | None, position: Position, version: int
) -> None:
    rows = sealer()
    sealed = rows.seal(memory, position, version)
    assert rows.open(sealed, position, version).reveal() == memory


@given(memory=memories)
def test_every_row_has_the_same_size(memory: Memory | None) -> None:
    rows = sealer()
    assert len(rows.seal(memory, Position(1), 1)) == rows.sealed_size


@given(
    memory=memories,
    written=st.tuples(positions, versions),
    asked=st.tuples(positions, versions),
)
def test_a_row_opens_nowhere_else(
    memory: Memory | None, written: tuple[Position, int], asked: tuple[Position, int]
) -> None:
    rows = sealer()
    sealed = rows.seal(memory, *written)
    if asked != written:
        with pytest.raises(SealError):
            rows.open(sealed, *asked)


@pytest.mark.parametrize("memory", [None, Memory("I am allergic to peanuts.", 1767225600)])
def test_no_byte_of_a_row_can_be_flipped(memory: Memory | None) -> None:
    rows = sealer()
    sealed = rows.seal(memory, Position(3), 5)
    for index in range(len(sealed)):
        flipped = bytearray(sealed)
        flipped[index] ^= 1 << (index % 8)
        with pytest.raises(SealError):
            rows.open(bytes(flipped), Position(3), 5)


def test_no_part_of_a_row_opens_and_nothing_longer() -> None:
    rows = sealer()
    sealed = rows.seal(Memory("text", 1), Position(3), 5)
    for length in set(range(2 * len(sealed) + 1)) - {len(sealed)}:
        with pytest.raises(SealError):
            rows.open((sealed * 2)[:length], Position(3), 5)


def test_the_same_content_never_looks_the_same_twice() -> None:
    rows = sealer()
    sealed = {rows.seal(None, Position(1), 1) for _ in range(64)}
    assert len(sealed) == 64


def test_a_text_over_the_capacity_is_refused_with_its_size_and_not_its_content() -> None:
    with pytest.raises(CapacityError) as refused:
        sealer().seal(Memory("secret " * 7, 1), Position(1), 1)
    assert (refused.value.size, refused.value.limit) == (49, CAPACITY)
    assert "secret" not in str(refused.value)


def test_capacity_is_eight_bytes_a_token_and_bounded() -> None:
    assert BYTES_PER_TOKEN == 8
    assert capacity_bytes(48) == 384
    for tokens in (0, -1, 8192):
        with pytest.raises(ContractError):
            capacity_bytes(tokens)


def test_an_opened_memory_does_not_show_itself() -> None:
    rows = sealer()
    opened = rows.open(rows.seal(Memory("peanuts", 1), Position(1), 1), Position(1), 1)
    assert "peanuts" not in repr(opened)
    assert "peanuts" not in repr(opened.reveal())


def test_a_text_that_is_not_utf8_leaves_no_trace_in_the_error() -> None:
    key = new_key()
    content = reference.row_plaintext(1, 1, b"peanuts\xff", CAPACITY)
    sealed = reference.row(key.reveal(), KEY_ID, STORE, 1, 1, bytes(12), content)
    with pytest.raises(SealError) as refused:
        sealer(key).open(sealed, Position(1), 1)
    assert refused.value.__cause__ is None
    assert refused.value.__context__ is None


# --- chains and keys ----------------------------------------------------------------------------


@given(record=st.binary(max_size=3000))
def test_entries_fill_whole_blocks(record: bytes) -> None:
    chain = ChainSealer(new_key(), KEY_ID, STORE)
    sealed = chain.seal(record, 1, ChainSealer.FIRST)
    assert (len(sealed) - 28) % 1024 == 0
    assert chain.open(sealed, 1, ChainSealer.FIRST) == record


def test_no_byte_of_an_entry_can_be_flipped() -> None:
    chain = ChainSealer(new_key(), KEY_ID, STORE)
    sealed = chain.seal(b'{"kind":"epoch_opened"}', 1, ChainSealer.FIRST)
    for index in range(len(sealed)):
        flipped = bytearray(sealed)
        flipped[index] ^= 1 << (index % 8)
        with pytest.raises(SealError):
            chain.open(bytes(flipped), 1, ChainSealer.FIRST)


def test_a_link_is_the_digest_of_the_sealed_entry() -> None:
    assert ChainSealer.link(b"sealed") == hashlib.sha256(b"sealed").digest()


def test_no_byte_of_a_wrapped_key_can_be_flipped() -> None:
    kek, key = new_key(), new_key()
    wrapped = wrap_key(kek, key, b"context")
    assert unwrap_key(kek, wrapped, b"context").reveal() == key.reveal()
    for index in range(len(wrapped)):
        flipped = bytearray(wrapped)
        flipped[index] ^= 1 << (index % 8)
        with pytest.raises(SealError):
            unwrap_key(kek, bytes(flipped), b"context")


def test_keys_and_ids_are_fresh() -> None:
    assert len({new_key().reveal() for _ in range(64)}) == 64
    assert len({new_id() for _ in range(64)}) == 64
    assert (len(new_key().reveal()), len(new_id())) == (32, 16)
