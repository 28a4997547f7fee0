"""Public rows are the same bits whatever private rows of the same shape hold."""

import random
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from tactfuld.inference.groups import SequenceGroup
from tactfuld.inference.llama_api import LlamaContext, LlamaModel
from tactfuld.inference.public_row import public_row_stands_alone
from tactfuld.inference.rows import Row

PUBLIC = "Answer the question. Notes: nothing is known. Question: what shall I cook today?"
SHARED = 4
STEPS = 3


def group(model: LlamaModel, cells: int, draw: random.Random) -> SequenceGroup:
    """A group whose private rows are anything that a model may be given."""
    public = tuple(model.tokenize(PUBLIC, special=False))
    private = [
        public[:SHARED] + tuple(draw.randrange(49152) for _ in public[SHARED:])
        for _ in range(cells)
    ]
    return SequenceGroup((public, *private), SHARED)


def public_bits(model: LlamaModel, group: SequenceGroup, *, unified: bool) -> bytes:
    """The public row's logits over some steps, with tokens that do not depend on them."""
    rows = len(group.rows)
    length = rows * 64
    with model.context(sequences=rows, unified=unified, length=length) as context:
        read(context, group, unified=unified)
        found = []
        last, position = group.last(), len(group.rows[0]) - 1
        for step in range(STEPS):
            context.decode(
                [Row(last[each], position + step, (each,), logits=True) for each in range(rows)]
            )
            found.append(context.logits()[0].tobytes())
            last = (100 + step,) * rows
    return b"".join(found)


def read(context: LlamaContext, group: SequenceGroup, *, unified: bool) -> None:
    """Without one pool a token has a cell for each sequence; what is shared is copied."""
    rows = group.reading()
    if not unified:
        shared = [Row(row.token, row.position, (0,), logits=False) for row in rows[:SHARED]]
        context.decode(shared)
        for each in range(1, len(group.rows)):
            context.copy(0, each, SHARED)
        rows = rows[SHARED:]
    for start in range(0, len(rows), context.batch):
        context.decode(rows[start : start + context.batch])


@pytest.mark.parametrize("unified", [True, False], ids=["unified", "apart"])
@pytest.mark.parametrize("cells", [1, 2, 4, 8])
def test_public_rows_are_the_same_bits_for_any_private_rows(
    llama_model: LlamaModel, cells: int, unified: bool
) -> None:
    draw = random.Random(cells)
    groups = [group(llama_model, cells, draw) for _ in range(3)]
    # Cells that hold nothing: private rows that are the public one.
    groups.append(SequenceGroup((groups[0].rows[0],) * (cells + 1), SHARED))
    found = {public_bits(llama_model, each, unified=unified) for each in groups}
    assert len(found) == 1


def test_other_public_rows_are_other_bits(llama_model: LlamaModel) -> None:
    """The negative control: the comparison sees a difference where there is one."""
    one = group(llama_model, 2, random.Random(1))
    other = SequenceGroup((one.rows[1], one.rows[0], one.rows[2]), SHARED)
    assert public_bits(llama_model, one, unified=True) != public_bits(
        llama_model, other, unified=True
    )


@pytest.mark.parametrize("rows", [1, 2, 9])
def test_the_trial_finds_the_public_row_alone_on_this_machine(
    llama_model: LlamaModel, rows: int
) -> None:
    assert public_row_stands_alone(llama_model, rows)


def test_the_trial_finds_a_public_row_that_depends_on_others(
    llama_model: LlamaModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backend whose public row takes the least bit of another row over."""
    right: Callable[[LlamaContext], npt.NDArray[np.float32]] = LlamaContext.logits

    def leaking(context: LlamaContext) -> npt.NDArray[np.float32]:
        found = right(context).copy()
        found[0, 0] += 1e-3 * found[-1, 0]
        return found

    monkeypatch.setattr(LlamaContext, "logits", leaking)
    assert not public_row_stands_alone(llama_model, 2)
