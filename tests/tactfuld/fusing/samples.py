"""A policy with every kind of shelf, and a tokeniser whose tokens merge, for fused text."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tests.fakes.small_policies import MEALS

from tactful_core.allocation import Online
from tactful_core.entries import Mechanism
from tactful_core.layout import GENERIC, Attribute, Layout, Shelf, Slot, View
from tactful_core.promises import Grant, Privacy, Promises
from tactful_core.values import AttributeName, Position, ShelfName, SlotName, units_from_epsilon
from tactfuld.inference.chat_template import ChatTemplate, Joints, read_chat_template

DIABETES, DEBT, GRIEF = map(AttributeName, ("diabetes", "debt", "grief"))
FOOD, FINANCE = SlotName("food"), SlotName("finance")
ALL = frozenset((DIABETES, DEBT, GRIEF))


def shelf(name: str, first: int, last: int, *, tokens: int = 8, unprotected: bool = False) -> Shelf:
    positions = tuple(Position(p) for p in range(first, last + 1))
    return Shelf(ShelfName(name), positions, tokens, unprotected)


def attribute(name: AttributeName, *positions: int) -> Attribute:
    fused = units_from_epsilon(8)
    return Attribute(name, frozenset(map(Position, positions)), units_from_epsilon(2), fused)


def slot(name: SlotName, *shelves: Shelf) -> Slot:
    return Slot(name, f"What concerns {name}.", shelves, (View(GENERIC, "Be kind."),))


def promises(charge_also: dict[SlotName, frozenset[AttributeName]] | None = None) -> Promises:
    """Two slots: shelves with one attribute, with two, with none, and an unprotected one.

    food.diet 1-3 (diabetes), food.groceries 4-5 (diabetes, debt), food.taste 6-7 (unprotected),
    food.odd 8 (nothing covers it); finance.bills 9-10 (debt), finance.loss 11 (grief).
    """
    layout = Layout(
        slots=(
            slot(
                FOOD,
                shelf("food.diet", 1, 3),
                shelf("food.groceries", 4, 5, tokens=6),
                shelf("food.taste", 6, 7, unprotected=True),
                shelf("food.odd", 8, 8),
            ),
            slot(FINANCE, shelf("finance.bills", 9, 10), shelf("finance.loss", 11, 11)),
        ),
        attributes=(
            attribute(DIABETES, 1, 2, 3, 4, 5),
            attribute(DEBT, 4, 5, 9, 10),
            attribute(GRIEF, 11),
        ),
    )
    return Promises(
        layout=layout,
        allocation=Online(3),
        mechanism=Mechanism.EXPONENTIAL,
        grants=(Grant(MEALS, frozenset((FOOD, FINANCE))),),
        digest="fusing",
        charge_also=charge_also or {},
        privacy=Privacy(Fraction(1, 10**5), 500),
    )


class MergingTokenizer:
    """A character a token, but many pairs of characters are one; `#` is a control token.

    So what stands next to a text can change how the text is cut, as in real vocabularies.
    """

    bos = 1
    adds_bos = False
    control = 2

    def render_chat(self, messages: Sequence[tuple[str, str]]) -> str | None:
        return "".join(f"#{role}:{text}#" for role, text in messages) + "#assistant:"

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        ids, rest = [], text
        while rest:
            pair = rest[:2]
            if special and rest[0] == "#":
                ids.append(self.control)
                rest = rest[1:]
            elif len(pair) == 2 and "#" not in pair and sum(map(ord, pair)) % 3 == 0:
                ids.append(10_000 + ord(pair[0]) * 1_000 + ord(pair[1]))
                rest = rest[2:]
            else:
                ids.append(100 + ord(rest[0]))
                rest = rest[1:]
        return ids

    def text(self, ids: Sequence[int]) -> str:
        """What ordinary ids stand for."""
        return "".join(
            chr((i - 10_000) // 1_000) + chr((i - 10_000) % 1_000) if i >= 10_000 else chr(i - 100)
            for i in ids
            if self.is_ordinary(i)
        )

    def is_ordinary(self, token: int) -> bool:
        return token not in {self.bos, self.control}


def template(tokenizer: MergingTokenizer) -> ChatTemplate:
    made = read_chat_template(tokenizer)
    assert isinstance(made.joints, Joints)
    return made
