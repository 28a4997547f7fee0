"""Long tier: 500 turns of a real daemon, through its socket, fit the exact probabilities.

Everything is real: process, sockets, sealed rows, embeddings, ledger, epochs, `secrets`. The exact
distribution is computed here from the same policy and memories. 500 turns cannot tell ε from 1.1 ε
(that is what the other statistical tests are for); they tell it from twice, half, none and argmax.
"""

import asyncio
from fractions import Fraction
from pathlib import Path

import pytest
from tests.fakes.daemon_process import make_profile, serving
from tests.model_fixture import embedded_model
from tests.statistical.fit import MOST_DEVIATIONS, fit, power

from tactful.app_client import AppClient
from tactful.owner_client import OwnerClient
from tactful_core.layout import Slot
from tactful_core.scoring import Scores, scores_from
from tactful_core.selection import Exponential
from tactful_core.values import Secret, Units
from tactfuld.inference.embedder import WordLlamaEmbedder
from tactfuld.policy.loading import parse_policy
from tactfuld.scorer import EmbeddingScorer

__all__ = ["embedded_model"]

TURNS = 500
CHARGES = 16
QUERY = "What is an affordable dinner for tonight?"
MEMORY = "Money is short: I buy only what is on offer."
SETTINGS = "sandbox: off\nturn: {deadline_ms: 40}\nanswer: {max_tokens: 1}\n"
POLICY = """\
version: 1
selection: {mechanism: exponential}
allocation: {mode: online, charges_per_cap: 16}
slots:
  food:
    description: meals, dinner, groceries, restaurants
    shelves: {groceries: {positions: 2, tokens: 32}}
    views:
      generic: {guidance: Suggest a simple meal such as pasta or soup.}
      strict_budget:
        guidance: Keep the cost as low as possible.
        supports: [Money is short and I must cut what I spend on groceries.]
        examples: [What is an affordable dinner?]
      blood_sugar:
        guidance: Prefer low-glycaemic choices.
        supports: [I have type 2 diabetes and watch my blood sugar.]
        examples: [Which snack is good for me?]
attributes:
  debt: {cap: 48.0, implied_by: [food]}
apps:
  meals: {slots: [food]}
"""
EPSILON = Units(48 * 720_720_000 // CHARGES)


async def exact_scores(slot: Slot) -> Scores:
    """What the daemon scores the query and the memory with."""
    scorer = EmbeddingScorer(await asyncio.to_thread(WordLlamaEmbedder.load))
    await asyncio.to_thread(scorer.prepare, (slot,))
    relevance = await scorer.relevance(QUERY, slot)
    return scores_from(relevance, await scorer.evidence(slot, Secret((MEMORY, ""))))


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("embedded_model")
def test_views_of_a_real_daemon_have_the_probabilities_of_the_mechanism(profile_dir: Path) -> None:
    (slot,) = parse_policy(POLICY, source="policy.yaml").layout.slots
    scores = asyncio.run(exact_scores(slot))
    chances = Exponential(EPSILON).distribution(scores)
    best = max(range(len(chances)), key=lambda view: chances[view])
    wrong = {
        factor: Exponential(Units(int(EPSILON * factor))).distribution(scores)[best]
        for factor in (0.0001, 0.5, 2)
    }
    names = [str(view.name) for view in slot.vocabulary]
    profile = make_profile(profile_dir / "p", policy=POLICY, settings=SETTINGS)
    counts = [0] * len(names)

    async def ask() -> None:
        async with OwnerClient.connect(profile) as owner:
            while not (await owner.status()).ready:  # noqa: ASYNC110 - another process gets ready
                await asyncio.sleep(0.2)
            await owner.remember(MEMORY, "food.groceries")
            token = (await owner.apps_grant("meals")).token
            async with AppClient.connect(profile, token) as app:
                for turn in range(TURNS):
                    if turn and turn % CHARGES == 0:
                        await owner.epoch_new((await owner.epoch_show()).epoch)
                    (view,) = (await app.ask(QUERY)).views
                    counts[names.index(view.view)] += 1
            assert (await owner.audit_replay()).matches

    with serving(profile):
        asyncio.run(ask())
    found = fit(counts, chances, counts[best], TURNS, chances[best])
    assert not found.objections, str(found)
    for chance in (*wrong.values(), Fraction(1)):
        assert power(chances[best], chance, TURNS) > MOST_DEVIATIONS + 2, "too few turns to tell"
