"""Rows of a fused answer: one length, one public row, and each cell in its own row only.

`violations` states the rules; mutants of the product's own parts must break them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.tactfuld.fusing.samples import (
    ALL,
    FINANCE,
    FOOD,
    MergingTokenizer,
    promises,
    template,
)

from tactful_core.values import Position, Secret
from tactfuld.fusing import contexts as product
from tactfuld.fusing.cells import CellPlan, plan_cells
from tactfuld.fusing.contexts import Frame, Rows, around_each, bare_length, contexts, frame
from tactfuld.inference.chat_template import ChatTemplate, Tokenizer, read_chat_template
from tactfuld.inference.errors import ModelError
from tactfuld.inference.llama_api import LlamaModel
from tactfuld.inference.prompt import EarlierTurn, build_prompt
from tactfuld.inference.rows import Row

QUERY = "What could I cook tonight?"
ROOM = 4000
LETTERS = "aeimnorst ,.-_\n#é漢🙂<|im_end|>"
PROMPT = build_prompt(QUERY, ("Prefer cheap meals.",))


@dataclass(frozen=True)
class Case:
    """Everything public about the rows of one answer."""

    plan: CellPlan
    frame: Frame
    tokenizer: Tokenizer

    def rows(self, texts: Sequence[str]) -> Rows:
        return contexts(self.frame, self.plan, Secret(tuple(texts)), self.tokenizer).rows.reveal()

    def blank(self) -> Rows:
        return self.rows([""] * len(self.plan.places))


def case(tokenizer: Tokenizer, made: ChatTemplate, room: int = ROOM) -> Case:
    """With `room` for the places."""
    of = promises()
    slots = [of.layout.slot(name) for name in (FOOD, FINANCE)]
    plan = plan_cells(slots, of, ALL, room=room, around=around_each(tokenizer))
    return Case(plan, frame(PROMPT, plan, made, tokenizer, room=ROOM), tokenizer)


@pytest.fixture
def toy() -> Case:
    tokenizer = MergingTokenizer()
    return case(tokenizer, template(tokenizer))


@pytest.fixture(scope="module")
def real(model: LlamaModel) -> Case:
    return case(model, read_chat_template(model))


def spans(of: Frame) -> list[range]:
    """The indices of each place in a row."""
    found, start = [], 0
    for piece, place in zip(of.pieces, of.places, strict=False):
        start += len(piece)
        found.append(range(start, start + place.capacity))
        start += place.capacity
    return found


def first_span(of: Case) -> range:
    """The indices of the first place of a cell."""
    pairs = zip(of.frame.places, spans(of.frame), strict=True)
    return next(span for place, span in pairs if place.charged)


def violations(of: Case, texts: Sequence[str], rows: Rows, public: Sequence[int]) -> list[str]:
    """Which rules the rows for these texts break; `public` is row 0 where what is covered is empty.

    The texts of unprotected positions are part of `public`.
    """
    found = []
    if len(rows) != 1 + len(of.plan.cells):
        return ["the number of rows depends on memory"]
    if {len(row) for row in rows} != {of.frame.length}:
        return ["a row has another length"]
    if tuple(rows[0]) != tuple(public):
        found.append("the public row depends on memory")
    for cell, row in zip(of.plan.cells, rows[1:], strict=True):
        own = {
            index
            for place, span in zip(of.frame.places, spans(of.frame), strict=True)
            if place.charged == cell
            for index in span
        }
        if any(a != b for i, (a, b) in enumerate(zip(row, public, strict=True)) if i not in own):
            found.append("a row shows more than its cell")
        held = [t for t, p in zip(texts, of.frame.places, strict=True) if p.charged == cell]
        if not any(held) and tuple(row) != tuple(public):
            found.append("an empty cell is not the public row")
    return found


def secrets(of: Case, seed: int, *, spread: int) -> Iterator[list[str]]:
    """Texts of up to `spread` characters for some of the covered places; the others stay empty."""
    rng = random.Random(seed)
    while True:
        yield [
            "".join(rng.choices(LETTERS, k=rng.randint(0, spread)))
            if place.charged and rng.random() < 0.6
            else ""
            for place in of.frame.places
        ]


# --- what every row is ----------------------------------------------------------------------------


def test_rows_keep_the_rules_whatever_is_remembered(toy: Case) -> None:
    public = toy.blank()[0]
    for _, texts in zip(range(500), secrets(toy, 1, spread=20), strict=False):
        assert violations(toy, texts, toy.rows(texts), public) == []


def test_public_row_is_the_same_for_10_000_secrets_of_every_length(real: Case) -> None:
    """With the model's own tokeniser; every length in tokens up to the capacity occurs."""
    public, seen = real.blank()[0], set[int]()
    first = next(index for index, place in enumerate(real.frame.places) if place.charged)
    place = real.frame.places[first]
    for _, texts in zip(range(10_000 // 8), secrets(real, 2, spread=14), strict=False):
        seen.add(min(len(product.memory_ids(texts[first], real.tokenizer)), place.capacity))
        rows = real.rows(texts)
        assert violations(real, texts, rows, public) == []
        assert bytes(np.array(rows[0], np.int32)) == bytes(np.array(public, np.int32))
    assert seen == set(range(place.capacity + 1))


def test_the_places_hold_as_many_fillers_as_their_capacity(toy: Case) -> None:
    public = toy.blank()[0]
    for place, span in zip(toy.frame.places, spans(toy.frame), strict=True):
        assert [public[index] for index in span] == [toy.frame.filler] * place.capacity


def test_a_memory_stands_in_its_place_followed_by_fillers(toy: Case) -> None:
    texts = ["" for _ in toy.frame.places]
    first = next(index for index, place in enumerate(toy.frame.places) if place.charged)
    texts[first] = "walnuts"
    ids = product.memory_ids("walnuts", toy.tokenizer)
    rows, span = toy.rows(texts), first_span(toy)
    shown = [rows[1][index] for index in span]
    assert 0 < len(ids) < len(shown)
    assert shown == [*ids, *[toy.frame.filler] * (len(shown) - len(ids))]


def test_what_is_unprotected_stands_in_every_row(toy: Case) -> None:
    texts = ["tea" if not place.charged else "" for place in toy.frame.places]
    rows = toy.rows(texts)
    assert len(set(rows)) == 1
    assert rows[0] != toy.blank()[0]


def test_what_is_longer_than_its_place_is_cut_and_only_the_owner_is_told(toy: Case) -> None:
    texts = ["x" * 100 if place.position == Position(2) else "" for place in toy.frame.places]
    found = contexts(toy.frame, toy.plan, Secret(tuple(texts)), toy.tokenizer)
    assert found.cut.reveal() == (Position(2),)
    assert violations(toy, texts, found.rows.reveal(), toy.blank()[0]) == []


def test_control_tokens_are_not_read_in_memory(toy: Case, real: Case, model: LlamaModel) -> None:
    for of, mark in ((toy, "#system:"), (real, "<|im_end|>")):
        texts = [mark if place.charged else "" for place in of.frame.places]
        rows, span = of.rows(texts), first_span(of)
        ids = [rows[1][index] for index in span]
        assert all(of.tokenizer.is_ordinary(each) for each in ids)
        assert ids != [of.frame.filler] * len(ids)
    (control,) = model.tokenize("<|im_end|>", special=True)
    assert not model.is_ordinary(control)


def test_nothing_of_memory_shows_in_a_repr(toy: Case) -> None:
    found = contexts(toy.frame, toy.plan, Secret(("x",) * len(toy.frame.places)), toy.tokenizer)
    assert repr(found) == "Contexts(rows=Secret(…), cut=Secret(…))"


# --- the public part ------------------------------------------------------------------------------


def test_notes_stand_after_the_question_and_the_opening_at_the_end(toy: Case) -> None:
    tokenizer = MergingTokenizer()
    text = tokenizer.text(toy.blank()[0])
    assert QUERY in text
    assert text.index(QUERY) < text.index(product.NOTES) < text.index("_")
    assert text.endswith(PROMPT.opening)
    assert text.count(product.BULLET) == len(toy.frame.places)
    assert text.index("_") < text.index(product.CLOSING.strip())


def test_earlier_turns_are_in_the_rows_as_long_as_there_is_room() -> None:
    tokenizer = MergingTokenizer()
    made = template(tokenizer)
    plan = case(tokenizer, made).plan
    spoken = replace(PROMPT, earlier=(EarlierTurn("Old?", "Old."), EarlierTurn("New?", "New.")))
    texts = []
    alone = frame(PROMPT, plan, made, tokenizer, room=ROOM).length
    for room in (alone, alone + 25, ROOM):
        found = frame(spoken, plan, made, tokenizer, room=room)
        assert found.length <= room
        texts.append(tokenizer.text(list(chain.from_iterable(found.pieces))))
    assert [("Old?" in text, "New?" in text) for text in texts] == [
        (False, False),
        (False, True),
        (True, True),
    ]


def test_the_bare_length_is_that_of_a_row_without_places(toy: Case) -> None:
    made = template(MergingTokenizer())
    of = toy.plan
    places = sum(place.capacity for place in of.places)
    bullets = around_each(toy.tokenizer) * len(of.places)
    assert bare_length(PROMPT, made, toy.tokenizer) + places + bullets == toy.frame.length


def test_runs_of_the_filler_are_known_in_the_model_s_own_tokens(model: LlamaModel) -> None:
    filler, runs = product.filler_of(model)
    assert filler in runs
    for run in ("____", " ____", "_" * 7):
        assert set(model.tokenize(run, special=False)) <= set(runs)
    assert not set(model.tokenize(" a word, and another.", special=False)) & set(runs)


def test_a_vocabulary_without_a_filler_is_refused() -> None:
    class Pairs(MergingTokenizer):
        def tokenize(self, text: str, *, special: bool) -> list[int]:
            return [each for letter in text for each in (5, 100 + ord(letter))]

    with pytest.raises(ModelError, match="empty place"):
        product.filler_of(Pairs())


# --- the model ------------------------------------------------------------------------------------


def test_public_logits_are_bit_identical_whatever_the_private_rows_hold(
    model: LlamaModel,
) -> None:
    """All rows in batches of one shape, as they are computed for an answer."""
    real = case(model, read_chat_template(model), room=30)
    assert len(real.plan.cells) == 2
    full = [["x y" if place.charged else "" for place in real.frame.places]]
    samples = [real.blank(), *(real.rows(texts) for texts in full)]
    samples += [real.rows(t) for _, t in zip(range(1), secrets(real, 3, spread=40), strict=False)]
    logits = [last_logits(model, rows) for rows in samples]
    assert all(each[0].tobytes() == logits[0][0].tobytes() for each in logits)
    assert (logits[1][1:] != logits[0][1:]).any(axis=1).all()


def last_logits(model: LlamaModel, rows: Rows) -> NDArray[np.float32]:
    """Logits after the last id of each row, all rows computed side by side."""
    with model.context(sequences=len(rows)) as context:
        columns = context.batch // len(rows)
        for start in range(0, len(rows[0]), columns):
            context.decode(
                [
                    Row(row[index], index, (number,), logits=index == len(row) - 1)
                    for number, row in enumerate(rows)
                    for index in range(start, min(start + columns, len(row)))
                ]
            )
        return context.logits().copy()


# --- mutants --------------------------------------------------------------------------------------


Mutant = Callable[[Case, pytest.MonkeyPatch], AbstractContextManager[None]]


@contextmanager
def one_filler_a_token(_of: Case, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Places are as long as what they hold."""
    patch.setattr(product, "in_place", lambda ids, _capacity, filler: tuple(ids) or (filler,))
    yield


@contextmanager
def whole_string(of: Case, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Rows are put together as text and tokenised as one."""
    assert isinstance(of.tokenizer, MergingTokenizer)
    tokenizer, honest = of.tokenizer, product.joined

    def joined(pieces: tuple[product.Ids, ...], places: Iterable[product.Ids]) -> product.Ids:
        text = tokenizer.text(honest(pieces, places))
        return tuple(tokenizer.tokenize(text, special=False))

    patch.setattr(product, "joined", joined)
    yield


@contextmanager
def public_row_with_as_many_fillers_as_tokens(
    of: Case, patch: pytest.MonkeyPatch
) -> Iterator[None]:
    """What is not shown is masked token by token, and the rest of the place is another id."""
    honest = product.contexts

    def masked(
        public: Frame, plan: CellPlan, texts: Secret[tuple[str, ...]], tokenizer: Tokenizer
    ) -> product.Contexts:
        found = honest(public, plan, texts, tokenizer)
        first, *rest = found.rows.reveal()
        number = next(index for index, place in enumerate(public.places) if place.charged)
        row, span = list(first), spans(public)[number]
        held = len(product.memory_ids(texts.reveal()[number], tokenizer))
        for index in list(span)[held:]:
            row[index] = public.filler + 1
        return product.Contexts(Secret((tuple(row), *rest)), found.cut)

    patch.setattr(f"{__name__}.contexts", masked)
    yield


@contextmanager
def rows_of_full_cells_only(of: Case, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """m counts the cells that hold something."""
    honest = product.contexts

    def fewer(
        public: Frame, plan: CellPlan, texts: Secret[tuple[str, ...]], tokenizer: Tokenizer
    ) -> product.Contexts:
        found = honest(public, plan, texts, tokenizer)
        first, *rest = found.rows.reveal()
        return product.Contexts(Secret((first, *(r for r in rest if r != first))), found.cut)

    patch.setattr(f"{__name__}.contexts", fewer)
    yield


@contextmanager
def every_cell_in_every_row(_of: Case, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """A private row shows all of memory."""
    patch.setattr(product, "_shows", lambda cell, place: cell is not None or not place.charged)
    yield


@pytest.mark.parametrize(
    "mutant",
    [
        one_filler_a_token,
        whole_string,
        public_row_with_as_many_fillers_as_tokens,
        rows_of_full_cells_only,
        every_cell_in_every_row,
    ],
)
def test_mutants_break_a_rule(toy: Case, mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    public = toy.blank()[0]
    with mutant(toy, monkeypatch):
        broken = [
            violations(toy, texts, toy.rows(texts), public)
            for _, texts in zip(range(20), secrets(toy, 4, spread=20), strict=False)
        ]
    assert any(broken)
