"""A warning names what does not cover a shelf, and advises one that protects as much and more."""

from __future__ import annotations

import pytest
from tests.fakes.naming_detector import naming_detector

from tactful_core.layout import Layout, Shelf
from tactful_core.sealing import Memory
from tactful_policies import starter_text
from tactfuld.coverage import Detector, Sureness, shipped_weights
from tactfuld.coverage_lint import CoverageLint
from tactfuld.inference.embedder import WordLlamaEmbedder
from tactfuld.inference.fake_embedder import HashEmbedder
from tactfuld.policy.loading import parse_policy

INSULIN = "I inject insulin for my diabetes."
SEA = "I like the sea."


@pytest.fixture(scope="module")
def lint() -> CoverageLint:
    layout = parse_policy(starter_text("everyday"), source="policy.yaml").layout
    embedder = WordLlamaEmbedder.load()
    return CoverageLint(layout, Detector(shipped_weights(), embedder), embedder)


def shelf(layout: Layout, name: str) -> Shelf:
    return next(each for each in layout.shelves if each.name == name)


def test_a_text_outside_the_shelves_of_what_it_implies_is_warned_about(lint: CoverageLint) -> None:
    travel = shelf(lint.layout, "plans.travel")
    said = lint.uncovered([INSULIN], travel)
    assert said is not None
    assert said.attributes == {"diabetes": Sureness.LIKELY}


def test_a_covered_text_and_an_everyday_one_are_not(lint: CoverageLint) -> None:
    assert lint.uncovered([INSULIN], shelf(lint.layout, "health.medicines")) is None
    assert lint.uncovered([SEA], shelf(lint.layout, "plans.travel")) is None
    assert lint.uncovered([], shelf(lint.layout, "plans.travel")) is None


def test_each_part_of_a_text_is_looked_at(lint: CoverageLint) -> None:
    travel = shelf(lint.layout, "plans.travel")
    for parts in ([SEA, INSULIN], [INSULIN, SEA]):
        said = lint.uncovered(parts, travel)
        assert said is not None
        assert said.attributes["diabetes"] is Sureness.LIKELY


def test_a_less_sure_part_does_not_make_a_surer_one_doubtful(lint: CoverageLint) -> None:
    embedder = HashEmbedder()
    naming = CoverageLint(lint.layout, naming_detector(embedder), embedder)
    for parts in (["insulin", "sugar"], ["sugar", "insulin"]):
        said = naming.uncovered(parts, shelf(lint.layout, "plans.travel"))
        assert said is not None
        assert said.attributes == {"diabetes": Sureness.LIKELY}


def test_the_shelf_that_is_advised_is_covered_by_all_that_covers_now_and_more(
    lint: CoverageLint,
) -> None:
    """C7: moving there takes no protection away."""
    advised = 0
    for each in lint.layout.shelves:
        said = lint.uncovered([INSULIN], each)
        if said is not None and said.better is not None:
            advised += 1
            before = lint.layout.required_charge_set(each.positions)
            for position in said.better.positions:
                assert lint.layout.covering(position) >= before | {"diabetes"}
    assert advised > 0


def test_memories_are_found_where_they_stand(lint: CoverageLint) -> None:
    outside = shelf(lint.layout, "plans.travel").positions
    inside = shelf(lint.layout, "health.medicines").positions
    full = [
        (inside[0], Memory(INSULIN, 0)),
        (outside[0], Memory(SEA, 0)),
        (outside[1], Memory(INSULIN, 0)),
    ]
    (found,) = lint.findings(full)
    assert (found.position, found.memory.text) == (outside[1], INSULIN)
    assert lint.findings([]) == ()


def test_it_says_which_attributes_it_knows(lint: CoverageLint) -> None:
    assert lint.looked_for == ("diabetes", "pregnancy", "debt", "job_loss")
    assert {each.name for each in lint.layout.attributes} > set(lint.looked_for)
