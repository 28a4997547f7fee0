"""Every way in which a policy can be wrong, with the exact line that the owner is shown.

The mistakes themselves, one to three lines each, are in `mistakes.txt`.
"""

import re
from pathlib import Path

import pytest
from tests.tactfuld.policy.texts import LATER, POLICY, edited

from tactfuld.policy.errors import PolicyError
from tactfuld.policy.loading import parse_policy
from tactfuld.problems import MOST_PROBLEMS

MISTAKE = re.compile(r"^- (?P<old>.*)\n\+ (?P<new>.*)\n= (?P<line>.*)$", re.MULTILINE)


def mistakes() -> list[tuple[str, str, str]]:
    """What stands in the policy, what the owner makes of it, what is shown."""
    text = Path(__file__).with_name("mistakes.txt").read_text(encoding="utf-8")
    found = [match.groups() for match in MISTAKE.finditer(text)]
    return [
        (old.replace("⏎", "\n"), new.replace("⏎", "\n"), line.replace("⏎", "\n"))
        for old, new, line in found
    ]


def shown(text: str) -> str:
    """What the owner is shown for a policy that must be refused."""
    with pytest.raises(PolicyError) as caught:
        parse_policy(text, source="policy.yaml")
    return str(caught.value)


def test_all_mistakes_of_the_file_are_tried() -> None:
    text = Path(__file__).with_name("mistakes.txt").read_text(encoding="utf-8")
    assert len(mistakes()) == text.count("\n= ") > 50


@pytest.mark.parametrize(("old", "new", "line"), mistakes())
def test_one_mistake_is_one_problem_with_its_line(old: str, new: str, line: str) -> None:
    assert shown(edited(old, new)) == f"policy.yaml:{line}"


def test_refuses_an_epsilon_of_fused_text_that_no_order_reaches() -> None:
    """At δ = 10^-5 the smallest is 0.228, whatever is drawn (GUARANTEE §5)."""
    at = "attributes.diabetes.fusion.epsilon"
    assert shown(LATER.replace("fusion: {epsilon: 8.0}", "fusion: {epsilon: 0.227}")) == (
        f"policy.yaml:31: {at}: fused text cannot be promised at epsilon 0.227 with delta 1e-5 "
        "and 2000 planned draws; the smallest that can is 0.228. Raise epsilon, or delta."
    )
    parse_policy(LATER.replace("fusion: {epsilon: 8.0}", "fusion: {epsilon: 0.228}"), source="p")


def test_refuses_tabs() -> None:
    assert shown(edited("    cap: 1.5", "\tcap: 1.5")) == (
        "policy.yaml:22: there is a tab here; indent and separate with spaces."
    )


@pytest.mark.parametrize("character", "\x00\x07\x1b\x85\u2028\ufeff\uffff\ud800")
def test_refuses_control_characters_and_hidden_line_breaks(character: str) -> None:
    assert shown(edited("papers", f"pap{character}ers")) == (
        f"policy.yaml:14: there is a control character here (U+{ord(character):04X}); remove it."
    )


def test_a_slot_that_an_attribute_covers_only_in_part_leaves_the_other_shelf_uncovered() -> None:
    assert "food.diet; name it" in shown(edited("implied_by: [food]", "implied_by: [news]"))


def test_a_policy_without_attributes_says_so_for_each_shelf() -> None:
    text = POLICY.partition("attributes:")[0]
    keys = [line.split(": ")[1] for line in shown(text).splitlines()]
    assert keys == ["slots.food.shelves.diet", "slots.food.shelves.groceries"]


def test_a_view_more_than_the_limit_is_refused() -> None:
    views = "".join(f'      v{i}: {{guidance: "Go.", supports: ["I go."]}}\n' for i in range(62))
    generic = '      generic: {guidance: "Suggest a simple meal."}\n'
    parse_policy(edited(generic, generic + views), source="policy.yaml")
    views += '      w: {guidance: "Go.", supports: ["I go."]}\n'
    assert shown(edited(generic, generic + views)) == (
        "policy.yaml:10: slots.food.views: a slot has at most 64 views; remove some."
    )


def test_the_generic_view_takes_no_statements() -> None:
    text = edited('{guidance: "Name one paper."}', '{guidance: "Name one.", supports: ["I read."]}')
    assert shown(text) == (
        "policy.yaml:18: slots.news.views.generic.supports: "
        "there is no key named supports here; the keys here are guidance."
    )


def test_more_positions_than_the_store_keeps_are_refused() -> None:
    shelves = "".join(f"      s{i}: {{positions: 10000, tokens: 8}}\n" for i in range(10))
    text = edited("    shelves:\n      diet:", f"    shelves:\n{shelves}      diet:")
    assert shown(text) == (
        "policy.yaml:4: slots: the shelves have 100006 positions together; the most is 100000."
    )


@pytest.mark.parametrize("text", ["- version: 1\n", "version\n", "42\n"])
def test_a_file_that_is_no_mapping_is_refused(text: str) -> None:
    assert shown(text).startswith("policy.yaml:1: expected keys with values below this, found ")


def test_a_misspelt_key_is_not_told_as_missing_too() -> None:
    assert shown(edited("    cap: 1.5", "    cpa: 1.5")) == (
        "policy.yaml:22: attributes.debt.cpa: there is no key named cpa here; did you mean cap?"
    )


def test_a_file_full_of_mistakes_is_told_in_bounded_length() -> None:
    assert len(shown("".join(f"K{i}: 1\n" for i in range(5000))).splitlines()) == MOST_PROBLEMS
    assert len(shown("a: 1\n" * 5000).splitlines()) <= MOST_PROBLEMS


def test_odd_names_are_quoted_and_cut_short_in_messages() -> None:
    told = shown(edited("  news:", f'  "{"x" * 5000}\\e[31m":'))
    assert "\x1b" not in told
    assert len(told) < 2000
