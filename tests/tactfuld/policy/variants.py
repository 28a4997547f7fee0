"""One small policy, and what may be written instead of each of its parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, product

from hypothesis import strategies as st

from tactfuld.policy.document import PolicyDocument
from tactfuld.policy.errors import PolicyError
from tactfuld.policy.loading import parse_document

_TEXT = """\
version: 1
epoch: {{renew: {renew}, tick: "{tick}"}}
selection: {{mechanism: {mechanism}}}
allocation: {{{allocation}}}
slots:
  food:
    description: {description}
    shelves:
      diet: {{positions: {positions}, tokens: 48}}
      groceries: {{positions: 1, tokens: {tokens}}}
    views:
      generic: {{guidance: Suggest a simple meal.}}
      cheap: {{guidance: {guidance}, supports: [{supports}]}}{more_views}
    charge_also: {also}
    reads: {reads}
  news:
    description: papers
    router: {router}
    charge_also: {news_also}
    shelves:
      seen: {{positions: 1, tokens: 16{seen}}}
    views:
      generic: {{guidance: Name one paper.}}
      short: {{guidance: Be short., supports: [No.]}}
{documents}
attributes:
  diabetes: {{cap: {diabetes}, implied_by: {implied}}}
  {debt}
apps:
  {meals}
  {guest}
"""

DOCUMENTS = """\
privacy: {delta: 1.0e-5, planned_draws: 20}
documents: {groups: {PERSON: {epsilon: 8.0}}}"""

PARTS: Mapping[str, tuple[str, ...]] = {
    "renew": ("monthly", "weekly", "manual"),
    "tick": ("03:00", "04:30"),
    "mechanism": ("exponential", "randomized_response"),
    "allocation": (
        "mode: online, charges_per_cap: 3",
        "mode: online, charges_per_cap: 2",
        "mode: standing",
        "mode: standing, releases: 2, weights: {food: 3}",
    ),
    "description": ("meals", "meals and groceries"),
    "positions": ("2", "3"),
    "tokens": ("48", "64"),
    "guidance": ("Keep the cost low.", "Keep it cheap."),
    "supports": ("I must save.", "I am broke."),
    "more_views": ("", "\n      light: {guidance: Keep it light., supports: [I diet.]}"),
    "also": ("[]", "[debt]", "[diabetes]"),
    "reads": ("[]", "[{when: [shop], shelves: [groceries]}]"),
    "router": ("{}", "{words: [newspaper], never: [dinner]}"),
    "documents": (
        "",
        "privacy: {delta: 1.0e-5, planned_draws: 2000}",
        "privacy: {delta: 1.0e-6, planned_draws: 10}",
        DOCUMENTS,
    ),
    "news_also": ("[]", "[debt]"),
    "seen": ("", ", unprotected: true"),
    "diabetes": (
        "2.0",
        "1.0",
        "3.0",
        "2.0, fusion: {epsilon: 8.0}",
        "2.0, fusion: {epsilon: 0.25}",
    ),
    "implied": ("[food, news]", "[food]", "[food.diet]", "[food.diet, news.seen]", "[news]"),
    "debt": (
        "debt: {cap: 1.5, implied_by: [food.groceries]}",
        "debt: {cap: 0.5, implied_by: [food.groceries]}",
        "debt: {cap: 9.0, implied_by: [food]}",
        "job: {cap: 1.0, implied_by: [news, food.groceries]}",
        "health: {cap: 1.0, implied_by: [food], fusion: {epsilon: 8.0}}",
        "",
    ),
    "meals": (
        "meals: {slots: [food], quota: {diabetes: 1.0}}",
        "meals: {slots: [food], quota: {diabetes: 0.5}}",
        "meals: {slots: [food, news]}",
        "meals: {slots: [news], quota: {diabetes: 2.0}}",
        "meals: {slots: [food], document_groups: [PERSON], folders: {~/a: read}}",
        "meals: {slots: [food], events: [timer, app], timers: {a: 0 7 * * *}, hears: [guest]}",
        "meals: {slots: [food], events: [budget], budget_below: {food: 2}}",
        "meals: {slots: [food], events: [timer], timers: {a: 0 8 * * *, b: 1 1 * * *}}",
        "meals:",
        "",
    ),
    "guest": ("", "guest: {slots: [food]}", "guest: {slots: [food], quota: {debt: 0.25}}"),
}
"""What each part may be, as it is in `BASE` first."""


def policy(**parts: str) -> PolicyDocument:
    """The small policy with some of its parts written in other ways.

    Raises:
        PolicyError: the parts do not fit together.
    """
    first = {name: ways[0] for name, ways in PARTS.items()}
    return parse_document(_TEXT.format(**{**first, **parts}), source="policy.yaml")


BASE = policy()


def edits() -> Iterator[tuple[dict[str, str], PolicyDocument]]:
    """Every policy that one or two parts make of `BASE`, with what was written."""
    ways = [(name, way) for name, others in PARTS.items() for way in others[1:]]
    singles = [(way,) for way in ways]
    pairs = [pair for pair in combinations(ways, 2) if pair[0][0] != pair[1][0]]
    for chosen in (*singles, *pairs):
        yield from _accepted(dict(chosen))


def all_of(*names: str) -> Iterator[PolicyDocument]:
    """Every policy that these parts make of `BASE`."""
    for chosen in product(*(PARTS[name] for name in names)):
        yield from (document for _, document in _accepted(dict(zip(names, chosen, strict=True))))


def _accepted(parts: dict[str, str]) -> Iterator[tuple[dict[str, str], PolicyDocument]]:
    try:
        yield parts, policy(**parts)
    except PolicyError:
        return


def policies() -> st.SearchStrategy[PolicyDocument]:
    """Any policy of these parts, with the same shelves or with others."""
    chosen = st.fixed_dictionaries({name: st.sampled_from(ways) for name, ways in PARTS.items()})
    return chosen.map(_nearest)


def _nearest(parts: dict[str, str]) -> PolicyDocument:
    """The policy of these parts, of which as many as must be are as in `BASE` for them to fit."""
    for first in ({}, *({name: PARTS[name][0]} for name in sorted(parts))):
        parts = {**parts, **first}
        for _, document in _accepted(parts):
            return document
    raise AssertionError("The parts of BASE fit together.")
