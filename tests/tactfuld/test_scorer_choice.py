"""Which scorer the settings choose, and what the owner hears of its cost."""

from __future__ import annotations

import io

import pytest
from tests.fakes.daemon_site import PROMISES
from tests.fakes.leaping_clock import LeapingClock
from tests.fakes.scripted_judge import ScriptedJudge

from tactful_core.values import SlotName
from tactfuld.inference.errors import EngineClosed, InferenceError, ModelError
from tactfuld.inference.fake_embedder import HashEmbedder
from tactfuld.journal import open_journal
from tactfuld.model_scorer import ModelScorer
from tactfuld.notices import Notices
from tactfuld.scorer import EmbeddingScorer
from tactfuld.scorer_choice import ScorerChoice
from tactfuld.settings import ScorerName, Settings

SLOTS = PROMISES.layout.slots


def choice(name: ScorerName, judge: ScriptedJudge | None = None) -> ScorerChoice:
    return ScorerChoice(
        name,
        HashEmbedder(),
        judge or ScriptedJudge(lambda _question, _texts: 0.0),
        LeapingClock(),
        Notices(open_journal(io.StringIO())),
        deadline_ms=250,
    )


def test_embeddings_score_unless_the_owner_says_otherwise() -> None:
    assert isinstance(choice(Settings().scorer).prepared(SLOTS), EmbeddingScorer)
    assert isinstance(choice("model").prepared(SLOTS), ModelScorer)


async def test_the_model_is_not_asked_where_embeddings_score() -> None:
    judge = ScriptedJudge(lambda _question, _texts: 0.0)
    chosen = choice("embedding", judge)
    await chosen.measure(chosen.prepared(SLOTS))
    assert judge.asked == []
    assert chosen.notices.sentences == ()


async def test_what_scoring_takes_is_told_where_it_is_longer_than_a_turn() -> None:
    judge = ScriptedJudge(lambda _question, _texts: 0.0)
    chosen = choice("model", judge)
    clock = chosen.clock
    assert isinstance(clock, LeapingClock)

    def during(_texts: tuple[str, ...]) -> None:
        clock.time += 2.0

    judge.during = during
    await chosen.measure(chosen.prepared(SLOTS))
    (sentence,) = chosen.notices.sentences
    for slot in SLOTS:
        assert f"{slot.name} " in sentence
    assert "turn.deadline_ms (250)" in sentence


async def test_nothing_is_told_of_scoring_that_fits_a_turn() -> None:
    chosen = choice("model")
    chosen.scoring_takes({SlotName("food"): 3.0})
    told = [len(chosen.notices.sentences)]
    chosen.scoring_takes({SlotName("food"): 0.2})
    told.append(len(chosen.notices.sentences))
    assert told == [1, 0]


@pytest.mark.parametrize(
    ("error", "told"), [(ModelError("It cannot say yes."), 1), (EngineClosed(), 0)]
)
async def test_a_model_that_cannot_judge_is_told(error: InferenceError, told: int) -> None:
    def fail(_texts: tuple[str, ...]) -> None:
        raise error

    judge = ScriptedJudge(lambda _question, _texts: 0.0)
    judge.during = fail
    chosen = choice("model", judge)
    await chosen.measure(chosen.prepared(SLOTS))
    assert len(chosen.notices.sentences) == told
    assert all(str(error) in sentence for sentence in chosen.notices.sentences)


def test_missed_time_is_told_once() -> None:
    chosen = choice("model")
    chosen.scoring_missed()
    chosen.scoring_missed()
    assert len(chosen.notices.sentences) == 1
