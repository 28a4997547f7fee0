"""Shelves are proposed by the text and the policy, and by nothing that is remembered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tactful_core.layout import Layout
from tactful_core.sealing import Memory
from tactful_core.values import Position, Secret
from tactful_policies import starter_text
from tactfuld.inference.embedder import WordLlamaEmbedder
from tactfuld.policy.loading import parse_policy
from tactfuld.proposals import proposed, suggested


@pytest.fixture(scope="module")
def embedder() -> WordLlamaEmbedder:
    return WordLlamaEmbedder.load()


@pytest.fixture(scope="module")
def layout() -> Layout:
    return parse_policy(starter_text("everyday"), source="policy.yaml").layout


def first_of(layout: Layout, shelf: str) -> Position:
    return next(each.positions[0] for each in layout.shelves if each.name == shelf)


@pytest.mark.parametrize(
    ("text", "shelf"),
    [
        ("I do not eat meat.", "food.diet"),
        ("I play the cello, it is my hobby.", "plans.hobbies"),
        ("I owe 3000 on my credit card.", "finance.accounts"),
        ("I take metformin in the morning.", "health.medicines"),
        ("My boss is called Petra.", "work.colleagues"),
    ],
)
def test_the_shelf_of_an_everyday_text_is_among_the_first_three(
    layout: Layout, embedder: WordLlamaEmbedder, text: str, shelf: str
) -> None:
    ranked = proposed(Secret(text), layout, embedder)
    assert shelf in [each.name for each in ranked[:3]]
    assert sorted(ranked, key=layout.shelves.index) == list(layout.shelves)


def test_a_text_without_meaning_gets_an_order_too(
    layout: Layout, embedder: WordLlamaEmbedder
) -> None:
    assert len(proposed(Secret("\u2603"), layout, embedder)) == len(layout.shelves)
    assert len(proposed(Secret(" "), layout, embedder)) == len(layout.shelves)


def test_a_misfiled_memory_is_suggested_a_shelf_that_protects_it_as_well(
    layout: Layout, embedder: WordLlamaEmbedder
) -> None:
    position = first_of(layout, "plans.travel")
    memory = Memory("I owe money on my credit card and must pay the bank.", 1)
    bare = replace(
        layout,
        attributes=tuple(
            replace(each, positions=each.positions - {position}) for each in layout.attributes
        ),
    )
    assert [each.better.name for each in suggested([(position, memory)], bare, embedder)] == [
        "finance.accounts"
    ]


def test_no_shelf_is_suggested_that_would_protect_less(
    layout: Layout, embedder: WordLlamaEmbedder
) -> None:
    """Health is covered by pregnancy, which finance.accounts is not (C7)."""
    text = "I owe money on my credit card and must pay the bank."
    found = suggested([(first_of(layout, "health.mood"), Memory(text, 1))], layout, embedder)
    for each in found:
        assert layout.covering(each.position) <= layout.covering(each.better.positions[0])
    assert "finance.accounts" not in [each.better.name for each in found]


def test_a_memory_is_judged_by_itself(layout: Layout, embedder: WordLlamaEmbedder) -> None:
    """What else is remembered changes no suggestion (C7)."""
    one = (first_of(layout, "plans.travel"), Memory("We fly to Lisbon.", 1))
    other = (first_of(layout, "food.diet"), Memory("I save money for a car.", 1))
    alone = suggested([one], layout, embedder) + suggested([other], layout, embedder)
    assert suggested([one, other], layout, embedder) == alone


def test_nothing_is_suggested_for_what_stands_right(
    layout: Layout, embedder: WordLlamaEmbedder
) -> None:
    memory = Memory("I do not eat meat.", 1)
    assert suggested([(first_of(layout, "food.diet"), memory)], layout, embedder) == ()
    assert suggested([], layout, embedder) == ()
