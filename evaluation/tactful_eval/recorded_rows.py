"""What a model expects next in a document, with its protected spans in view and without.

Decides the two rows, public and private, and which tokens are forced. What is *not* here: documents
(`court_documents`), what mixtures make of the rows (`perplexity`).

The model is told to write a document again, which stands in its prompt; then its own tokens are
forced, and before each of them both distributions are recorded. In the private row the document
stands as it is; in the public one each protected span is as many placeholders as its capacity, the
next multiple of `BUCKET` tokens, to which the private row is filled up too. Pieces are tokenised
one by one (GUARANTEE §5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from tactful_eval.court_documents import Document
from tactfuld.inference.chat_template import ChatTemplate, ordinary_tokens, read_chat_template
from tactfuld.inference.engine import BATCH, available_cores
from tactfuld.inference.footprint import preflight
from tactfuld.inference.rows import Row

if TYPE_CHECKING:
    from tactfuld.inference.llama_api import LlamaModel

CONTEXT: Final = 2048
BUCKET: Final = 4
ROLE: Final = "You are a careful clerk who copies documents. "
ORDER: Final = "Write this text again, word for word."
PUBLIC, PRIVATE = 0, 1

Distributions = npt.NDArray[np.float64]
"""Shape (tokens, |V|), each row sums to 1."""


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """One document.

    Attributes:
    tokens: the ids that were forced, shape (tokens,).
    public, private: the distribution of each of them, before it.
    """

    name: str
    tokens: npt.NDArray[np.intp]
    public: Distributions
    private: Distributions

    def beginning(self, tokens: int) -> Recorded:
        """The first so many tokens."""
        return Recorded(
            self.name, self.tokens[:tokens], self.public[:tokens], self.private[:tokens]
        )


def recorded(
    model: LlamaModel, template: ChatTemplate, document: Document, draws: int
) -> Recorded | None:
    """The first `draws` tokens of a document; `None` if it is shorter."""
    pieces = [(tuple(ordinary_tokens(p.text, model)), p.protected) for p in document.pieces]
    forced = [token for ids, _ in pieces for token in ids][:draws]
    if len(forced) < draws:
        return None
    prompts = _prompts(model, template, _first(pieces, draws))
    cells = 2 * (len(prompts[PUBLIC]) + draws)
    with model.context(sequences=2, unified=True, length=cells) as context:
        for start in range(0, len(prompts[PUBLIC]), context.batch // 2):
            part = [prompt[start : start + context.batch // 2] for prompt in prompts]
            last = start + len(part[PUBLIC]) == len(prompts[PUBLIC])
            context.decode(_rows(part, start, [last] * 2))
        found = [_softmax(context.logits())]
        length = len(prompts[PUBLIC])
        for start in range(0, draws - 1, context.batch // 2):
            part = [tuple(forced[start : min(draws - 1, start + context.batch // 2)])] * 2
            context.decode(_rows(part, length + start, [True] * 2, every=True))
            found.append(_softmax(context.logits()))
        context.clear(erase=True)
    rows = np.concatenate(found).reshape(draws, 2, -1)
    return Recorded(document.name, np.array(forced), rows[:, PUBLIC], rows[:, PRIVATE])


def _first(
    pieces: Sequence[tuple[tuple[int, ...], bool]], tokens: int
) -> list[tuple[tuple[int, ...], bool]]:
    """Pieces until so many tokens are in them."""
    found, taken = [], 0
    for ids, protected in pieces:
        found.append((ids, protected))
        taken += len(ids)
        if taken >= tokens:
            break
    return found


def _prompts(
    model: LlamaModel, template: ChatTemplate, pieces: Sequence[tuple[tuple[int, ...], bool]]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Public and private prompt, of one length."""
    (filler,) = ordinary_tokens("_", model)
    between = template.between or ()
    told = (*template.before, *ordinary_tokens(ROLE, model), *between)
    before = (*told, *ordinary_tokens(f"{ORDER}\n\n", model))
    rows: tuple[list[int], list[int]] = (list(before), list(before))
    for ids, protected in pieces:
        capacity = -(-len(ids) // BUCKET) * BUCKET if protected else len(ids)
        filled = [filler] * (capacity - len(ids))
        rows[PUBLIC].extend([filler] * capacity if protected else ids)
        rows[PRIVATE].extend([*ids, *filled])
    public, private = ((*row, *template.after) for row in rows)
    return public, private


def _rows(
    parts: Sequence[Sequence[int]], start: int, wanted: Sequence[bool], *, every: bool = False
) -> list[Row]:
    """Rows of both sequences, token by token next to each other."""
    length = len(parts[0])
    return [
        Row(
            ids[place],
            start + place,
            (sequence,),
            wanted[sequence] and (every or place == length - 1),
        )
        for place in range(length)
        for sequence, ids in enumerate(parts)
    ]


def _softmax(logits: npt.NDArray[np.float32]) -> Distributions:
    exact = logits.astype(np.float64)
    exact -= exact.max(axis=1, keepdims=True)
    np.exp(exact, out=exact)
    exact /= exact.sum(axis=1, keepdims=True)
    return exact


@contextmanager
def open_recorder(
    path: Path, threads: int | None, draws: int
) -> Iterator[Callable[[Document], Recorded | None]]:
    """Hold the model at `path`, and yield what records a document."""
    preflight(path, CONTEXT)
    from tactfuld.inference.llama_api import LlamaModel, LoadRequest

    model = LlamaModel(
        LoadRequest(path, CONTEXT, BATCH, threads or available_cores(), lambda _done: True)
    )
    try:
        template = read_chat_template(model)
        yield lambda document: recorded(model, template, document, draws)
    finally:
        model.close()
