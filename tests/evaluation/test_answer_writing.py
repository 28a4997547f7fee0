"""Answers are written once, kept, and written anew when anything that they depend on changes."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest
from tests.model_fixture import embedded_model

from tactful_eval.answer_rates import rates
from tactful_eval.answer_writing import KeptAnswers, Writer, open_writer
from tactful_eval.view_questions import slots
from tactful_policies import starter_text
from tactfuld.inference.chat_template import ChatTemplate
from tactfuld.inference.llama_api import LlamaContext, LlamaModel
from tactfuld.inference.prompt import Prompt
from tactfuld.inference.sampling import Sampling

__all__ = ["embedded_model"]

PROMPT = Prompt("system", "user", opening="I suggest")


@dataclass(frozen=True, slots=True)
class CountingWriter(Writer):
    """Answers with how many answers it has written."""

    written: list[int] = field(default_factory=list)

    def write(self, prompt: Prompt, seed: int) -> str:
        self.written.append(seed)
        return f"answer {len(self.written)}"


def counting_writer() -> CountingWriter:
    model, context = cast(LlamaModel, None), cast(LlamaContext, None)
    template = ChatTemplate((), (), ())
    return CountingWriter(model, context, template, "fingerprint", Sampling(), max_tokens=9)


def test_a_stopped_run_goes_on_with_the_answers_that_it_kept(tmp_path: Path) -> None:
    writer, path = counting_writer(), tmp_path / "answers.jsonl"
    first = KeptAnswers(path)
    assert [first.answer(writer, PROMPT, seed) for seed in (0, 1, 0)] == [
        "answer 1", "answer 2", "answer 1",
    ]  # fmt: skip
    again = KeptAnswers(path)
    assert [again.answer(writer, PROMPT, seed) for seed in (0, 1, 2)] == [
        "answer 1", "answer 2", "answer 3",
    ]  # fmt: skip
    assert writer.written == [0, 1, 2]


def test_without_a_file_answers_are_kept_for_the_run() -> None:
    writer, kept = counting_writer(), KeptAnswers(None)
    assert kept.answer(writer, PROMPT, 0) == kept.answer(writer, PROMPT, 0) == "answer 1"


@pytest.mark.parametrize(
    "other",
    [
        Prompt("another system", "user", opening="I suggest"),
        Prompt("system", "another user", opening="I suggest"),
        Prompt("system", "user", opening="Try"),
    ],
)
def test_another_prompt_is_answered_anew(other: Prompt) -> None:
    writer = counting_writer()
    assert writer.key(other, 0) != writer.key(PROMPT, 0)


@pytest.mark.parametrize(
    "change",
    [{"fingerprint": "another"}, {"sampling": Sampling(temperature=0.9)}, {"max_tokens": 8}],
)
def test_another_model_sampling_or_limit_answers_anew(change: dict[str, object]) -> None:
    writer = counting_writer()
    assert replace(writer, **change).key(PROMPT, 0) != writer.key(PROMPT, 0)  # type: ignore[arg-type]


def test_another_seed_answers_anew() -> None:
    assert counting_writer().key(PROMPT, 0) != counting_writer().key(PROMPT, 1)


def test_views_show_in_the_answers_of_the_embedded_model(embedded_model: Path) -> None:
    """A margin far below what was measured (evaluation/README.md), to hold on any processor."""
    food = [slot for slot in slots(starter_text("everyday")) if slot.slot == "food"]
    kept = KeptAnswers(None)
    with open_writer(embedded_model) as writer:
        found = rates(
            food,
            lambda slot: slot.tuning[:2],
            lambda prompt, seed: kept.answer(writer, prompt, seed),
        )
    assert found.shown.share >= found.generic.share + 0.3
