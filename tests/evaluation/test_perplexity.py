"""Perplexity under fused draws: between the ends, at what is certified, on aligned rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.tactfuld.inference.families import GEMMA2, SMOLLM2
from tests.tactfuld.inference.tiny_model import Family, tiny_model

from tactful_core.fusion import FusionParameters, calibrate
from tactful_core.values import AttributeName
from tactful_eval.court_documents import Document, documents, marked
from tactful_eval.perplexity import (
    DELTA,
    DRAWS,
    EPSILONS,
    certified,
    fused,
    measured,
    mollified_certified,
    mollified_within,
    perplexity,
)
from tactful_eval.recorded_rows import BUCKET, Recorded, _prompts, open_recorder, recorded
from tactfuld.inference.chat_template import read_chat_template
from tactfuld.inference.llama_api import LlamaModel, LoadRequest
from tactfuld.inference.rows import rows_of

WORDS = 40


def rows(seed: int, tokens: int = 12) -> Recorded:
    """Private rows know the next token well, public ones do not."""
    source = np.random.default_rng(seed)
    public = source.dirichlet(np.ones(WORDS), tokens)
    forced = source.integers(WORDS, size=tokens)
    known = np.zeros_like(public)
    known[np.arange(tokens), forced] = 1.0
    return Recorded(f"{seed}", forced, public, 0.1 * public + 0.9 * known)


def parameters(epsilon: float) -> FusionParameters:
    return calibrate({AttributeName("document"): epsilon}, DELTA, DRAWS)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_certified_is_within_what_is_compared(epsilon: float) -> None:
    assert certified(parameters(epsilon)) <= epsilon
    for alpha in (4, 8, 16):
        found = mollified_within(epsilon, alpha)
        assert found is None or 0.99 * epsilon < mollified_certified(found) <= epsilon


def test_two_hops_reach_no_small_epsilon_at_a_low_order() -> None:
    assert mollified_within(4.0, 3) is None


def test_fused_draws_are_between_the_ends_and_grow_with_epsilon() -> None:
    found = measured([rows(1)], [rows(2), rows(3), rows(4)])
    by_kernel: dict[str, list[float]] = {}
    for each in found:
        if each.perplexity is not None:
            by_kernel.setdefault(each.kernel, []).append(each.perplexity.value)
    (public,), (private,) = by_kernel["public"], by_kernel["private"]
    for kernel in ("direct", "mollified"):
        assert by_kernel[kernel] == sorted(by_kernel[kernel], reverse=True)
        assert all(private < value < public for value in by_kernel[kernel])
    assert len(by_kernel["direct"]) == len(EPSILONS)


def test_rows_that_know_nothing_are_worth_nothing() -> None:
    """Where p is q, a mixture is q, but for what rounding to whole weights changes."""
    blind = rows(5)
    same = Recorded("same", blind.tokens, blind.public, blind.public)
    found = fused(same, parameters(16.0))
    chosen = blind.public[np.arange(len(blind.tokens)), blind.tokens]
    assert found == pytest.approx(-np.log(chosen), abs=1e-4)


def test_intervals_hold_the_value_and_are_of_documents() -> None:
    losses = [np.full(10, value) for value in (1.0, 2.0, 3.0)]
    found = perplexity(losses, [each + 1 for each in losses], [each - 1 for each in losses])
    assert found.value == pytest.approx(np.exp(2.0))
    assert found.low < found.value < found.high
    assert found.over_public == pytest.approx([np.exp(-1.0)] * 3)
    assert found.over_private == pytest.approx([np.e] * 3)
    assert found.between_the_ends


def test_an_end_is_not_between_the_ends() -> None:
    losses = [np.full(10, value) for value in (1.0, 2.0, 3.0)]
    assert not perplexity(losses, losses, [each - 1 for each in losses]).between_the_ends
    assert not perplexity(losses, [each + 1 for each in losses], losses).between_the_ends


# --- rows of a model ------------------------------------------------------------------------------


@pytest.fixture(params=["SmolLM2", "Gemma-2"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    family: Family = SMOLLM2 if request.param == "SmolLM2" else GEMMA2
    path = tmp_path / "tiny.gguf"
    path.write_bytes(tiny_model(family))
    return path


@pytest.fixture
def model(file: Path) -> Iterator[LlamaModel]:
    model = LlamaModel(LoadRequest(file, 512, 64, 1, lambda _done: True))
    yield model
    model.close()


def short(secret: str) -> Document:
    return marked("short", f"He met [[{secret}]] at noon, and she spoke of the weather.")


def test_each_distribution_is_that_before_its_token(model: LlamaModel) -> None:
    """As each row alone computes it, token by token."""
    template, document, draws = read_chat_template(model), short("Vera"), 45
    found = recorded(model, template, document, draws)
    assert found is not None
    assert found.public.shape == found.private.shape == (draws, model_vocabulary(model))
    pieces = [(tuple(model.tokenize(p.text, special=False)), p.protected) for p in document.pieces]
    for prompt, rows_found in zip(
        _prompts(model, template, pieces), (found.public, found.private), strict=True
    ):
        for place in (0, 1, draws - 1):
            seen = [*prompt, *map(int, found.tokens[:place])]
            with model.context(length=512) as context:
                for start in range(0, len(seen), 64):
                    context.decode(rows_of(seen[start : start + 64], start, 0))
                logits = context.logits()[-1].astype(np.float64)
            expected = np.exp(logits - logits.max())
            assert rows_found[place] == pytest.approx(expected / expected.sum(), abs=1e-3)


def model_vocabulary(model: LlamaModel) -> int:
    with model.context(length=256) as context:
        return context.vocabulary


def test_public_prompt_is_the_same_for_every_secret_of_its_bucket(model: LlamaModel) -> None:
    template = read_chat_template(model)
    prompts = []
    for secret in ("Vera", "Bo", "Zo"):
        pieces = [
            (tuple(model.tokenize(piece.text, special=False)), piece.protected)
            for piece in short(secret).pieces
        ]
        prompts.append(_prompts(model, template, pieces))
    assert len({public for public, _ in prompts}) == 1
    assert len({private for _, private in prompts}) == 3
    assert BUCKET == 4


def test_documents_that_are_too_short_are_left_out(file: Path) -> None:
    with open_recorder(file, 1, 500) as record:
        assert record(short("Vera")) is None


def test_our_own_documents_have_public_and_protected_parts() -> None:
    own = documents(None)
    assert len(own) >= 6
    for document in own:
        assert any(piece.protected for piece in document.pieces)
        text = "".join(piece.text for piece in document.pieces)
        assert "[[" not in text
        assert len(text) > 800  # 200 tokens, at four letters each
