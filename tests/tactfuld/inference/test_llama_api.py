"""Sequences side by side in one context compute what each computes alone."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from tactfuld.inference.errors import ModelError
from tactfuld.inference.llama_api import LlamaContext, LlamaModel
from tactfuld.inference.rows import Row, rows_of

# llama.cpp's sums depend on how many rows are computed together and where their cells lie.
TOLERANCE = 0.05


@pytest.fixture(params=[True, False], ids=["unified", "apart"])
def context(llama_model: LlamaModel, request: pytest.FixtureRequest) -> Iterator[LlamaContext]:
    with llama_model.context(sequences=4, unified=request.param, length=1024) as context:
        yield context


def alone(model: LlamaModel, tokens: list[int]) -> npt.NDArray[np.float32]:
    """Logits after `tokens` in a context of their own."""
    with model.context() as context:
        context.decode(rows_of(tokens, 0, 0))
        found: npt.NDArray[np.float32] = context.logits()[0].copy()
        return found


def test_sequences_do_not_see_each_other(llama_model: LlamaModel, context: LlamaContext) -> None:
    texts = ["A recipe with rice and", "The ship sailed over", "My doctor said that I"]
    prompts = [llama_model.tokenize(text, special=False) for text in texts]
    rows = [row for number, prompt in enumerate(prompts) for row in rows_of(prompt, 0, number)]
    context.decode(rows)
    found = context.logits()
    assert found.shape == (3, context.vocabulary)
    for together, prompt in zip(found, prompts, strict=True):
        expected = alone(llama_model, prompt)
        assert np.abs(together - expected).max() < TOLERANCE
        assert np.argmax(together) == np.argmax(expected)


def test_logits_come_in_the_order_of_the_rows_that_asked(
    llama_model: LlamaModel, context: LlamaContext
) -> None:
    """Rows of sequences are mixed, so that llama.cpp has reason to reorder them."""
    first = llama_model.tokenize("one two three four", special=False)
    second = llama_model.tokenize("red green blue", special=False)
    rows = rows_of(first, 0, 2)
    for place, row in enumerate(rows_of(second, 0, 0)):
        rows.insert(2 * place, row)
    context.decode(rows)
    found = context.logits().copy()
    order = [row.sequences[0] for row in rows if row.logits]
    for sequence, logits in zip(order, found, strict=True):
        expected = alone(llama_model, first if sequence == 2 else second)
        assert np.abs(logits - expected).max() < TOLERANCE


def test_a_copied_prefix_goes_on_like_one_that_was_read(
    llama_model: LlamaModel, context: LlamaContext
) -> None:
    shared = llama_model.tokenize("The weather on the sea is", special=False)
    rest = llama_model.tokenize(" often stormy and", special=False)
    context.decode(rows_of([*shared, *rest], 0, 0))
    context.copy(0, 1, len(shared))
    assert (context.length(0), context.length(1)) == (len(shared) + len(rest), len(shared))
    other = llama_model.tokenize(" calm today", special=False)
    context.decode(rows_of(other, len(shared), 1))
    expected = alone(llama_model, [*shared, *other])
    assert np.abs(context.logits()[0] - expected).max() < TOLERANCE


def test_a_removed_end_leaves_the_beginning(llama_model: LlamaModel, context: LlamaContext) -> None:
    tokens = llama_model.tokenize("The weather on the sea is often", special=False)
    context.decode(rows_of(tokens, 0, 1))
    context.remove(1, 4)
    assert context.length(1) == 4
    context.decode(rows_of(tokens[4:6], 4, 1))
    assert np.abs(context.logits()[0] - alone(llama_model, tokens[:6])).max() < TOLERANCE
    context.remove(1)
    assert context.length(1) == 0


def test_a_removed_sequence_frees_its_cells(llama_model: LlamaModel) -> None:
    tokens = llama_model.tokenize("word " * 250, special=False)[:240]
    with llama_model.context(sequences=2, length=256) as context:
        for _ in range(3):
            for start in range(0, len(tokens), context.batch):
                context.decode(rows_of(tokens[start : start + context.batch], start, 0))
            with pytest.raises(ModelError, match="could not continue"):
                context.decode(rows_of(tokens[:40], 0, 1))
            context.remove(0)


@pytest.mark.parametrize("count", [0, 65])
def test_refuses_what_is_not_one_batch(llama_model: LlamaModel, count: int) -> None:
    with (
        llama_model.context() as context,
        pytest.raises(ValueError, match="rows were given"),
    ):
        context.decode([Row(1, place, (0,), logits=False) for place in range(count)])


def test_token_ids_are_overwritten_after_the_call(
    llama_model: LlamaModel, context: LlamaContext
) -> None:
    tokens = llama_model.tokenize("a word to forget", special=False)
    context.decode(rows_of(tokens, 0, 0))
    assert context._rows.token[: len(tokens)] == [0] * len(tokens)
