"""Which shelves a query reads: a function of the query and of public rules."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.tactfuld.policy.texts import edited

from tactful_core.errors import ContractError
from tactful_core.layout import ReadRule, Slot
from tactful_core.values import ShelfName
from tactfuld.inference.embedder import WordLlamaEmbedder
from tactfuld.inference.fake_embedder import HashEmbedder
from tactfuld.policy.loading import parse_policy
from tactfuld.reading import Reading

RULES = (
    '[{when: [shopping, "What shall I buy?"], shelves: [groceries]}, '
    "{when: [diet], shelves: [diet]}]"
)
TEXT = edited("description: meals and groceries", f"description: meals\n    reads: {RULES}")
FOOD = parse_policy(TEXT, source="policy.yaml").layout.slots[0]


def reading(slot: Slot = FOOD) -> Reading:
    found = Reading(HashEmbedder())
    found.prepare((slot,))
    return found


def shelves(query: str, slot: Slot = FOOD) -> list[str]:
    return [shelf.name for shelf in reading(slot).of(slot, query).shelves]


@pytest.mark.parametrize(
    ("query", "read"),
    [
        ("my Shopping list", ["food.groceries"]),
        ("a diet", ["food.diet"]),
        ("shopping for a diet", ["food.diet", "food.groceries"]),
        ("what shall i buy", ["food.groceries"]),
        ("dinner", ["food.diet", "food.groceries"]),
        ("", ["food.diet", "food.groceries"]),
    ],
)
def test_a_query_reads_what_its_rules_say_together_and_else_everything(
    query: str, read: list[str]
) -> None:
    assert shelves(query) == read


def test_a_question_is_matched_by_its_meaning() -> None:
    by_meaning = Reading(WordLlamaEmbedder.load())
    by_meaning.prepare((FOOD,))
    alike = by_meaning.of(FOOD, "What should I buy today?")
    assert [shelf.name for shelf in alike.shelves] == ["food.groceries"]
    assert by_meaning.of(FOOD, "Is there a good restaurant nearby?") is FOOD


def test_a_question_is_no_list_of_words() -> None:
    """`What shall I buy?` is an example; a text that merely contains it is compared like others."""
    long = "what shall i buy " + " ".join(f"word{i}" for i in range(40))
    assert shelves(long) == ["food.diet", "food.groceries"]


def test_what_is_read_keeps_everything_else_of_the_slot() -> None:
    part = reading().of(FOOD, "shopping")
    assert part.positions == (3, 4, 5)
    assert replace(part, shelves=FOOD.shelves) == FOOD


def test_a_slot_without_rules_is_read_as_it_is() -> None:
    plain = replace(FOOD, reads=())
    assert reading(plain).of(plain, "shopping") is plain


def test_a_slot_is_read_by_its_own_shelves_only() -> None:
    with pytest.raises(ContractError):
        FOOD.reading({ShelfName("food.diet"), ShelfName("news.seen")})
    with pytest.raises(ContractError):
        FOOD.reading(())


def test_a_rule_that_names_a_shelf_the_slot_lost_reads_nothing_in_secret() -> None:
    lost = replace(FOOD, reads=(ReadRule(("shopping",), (ShelfName("food.cellar"),)),))
    with pytest.raises(ContractError):
        reading(lost).of(lost, "shopping")
