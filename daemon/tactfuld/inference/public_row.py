"""Whether a public row's logits are the same bits whatever stands in the rows beside it.

Decides that for one llama.cpp build, device and model, by trying: groups of one shape that differ
only in their private rows. Where the bits differ, the public row has to be computed in a call of
its own (GUARANTEE §5). Not here: those calls (lane).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tactfuld.inference.groups import SequenceGroup
from tactfuld.inference.rows import Row

if TYPE_CHECKING:
    from tactfuld.inference.llama_api import LlamaModel

LENGTH: Final = 6
SHARED: Final = 3
STEPS: Final = 2
# How far apart the private rows of the groups are taken from the vocabulary.
STRIDES: Final = (1, 7, 31)


def public_row_stands_alone(model: LlamaModel, rows: int) -> bool:
    """Whether sequence 0 of a group of so many `rows` does not depend on the others, bit for bit.

    Takes a context and a few calls. Raises `ModelError` where there is no memory for it.
    """
    return len({_public_logits(model, rows, stride) for stride in STRIDES}) == 1


def _public_logits(model: LlamaModel, rows: int, stride: int) -> bytes:
    found = []
    with model.context(sequences=rows, length=rows * (LENGTH + STEPS)) as context:
        group = _group(rows, stride, context.vocabulary)
        read = group.reading()
        for start in range(0, len(read), context.batch):
            context.decode(read[start : start + context.batch])
        last = group.last()
        for step in range(STEPS):
            at = LENGTH - 1 + step
            context.decode([Row(last[each], at, (each,), logits=True) for each in range(rows)])
            found.append(context.logits()[0].tobytes())
            last = (1 + step,) * rows
    return b"".join(found)


def _group(rows: int, stride: int, vocabulary: int) -> SequenceGroup:
    public = tuple(range(1, LENGTH + 1))
    private = [
        public[:SHARED]
        + tuple((stride * (each * LENGTH + at) + 11) % vocabulary for at in range(SHARED, LENGTH))
        for each in range(1, rows)
    ]
    return SequenceGroup((public, *private), SHARED)
