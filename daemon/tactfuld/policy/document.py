"""The policy file as pydantic models: which keys there are, and what each may hold.

Decides the shape of one value at a time. What is *not* here: whether names fit together
(`references`), positions and privacy units (`promises`), YAML itself (`tactfuld.yaml_text`).

Invariants:

- unknown keys are refused everywhere; nothing is converted from one type to another;
- defaults deny: a file without `apps` lets nobody ask, an app without `slots` may ask for nothing;
- a cap is the decimal that was written, above 0, with at most three places (GUARANTEE §3).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from tactfuld.yaml_models import NAME_PATTERN, OwnersModel

MOST_VIEWS = 64
MOST_STATEMENTS = 16
MOST_EPSILON = 100
PLACES = 3
LONGEST_LINE = 200

_TIME_OF_DAY = re.compile(r"([01]\d|2[0-3]):[0-5]\d")


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("this text has line breaks or control characters; write it as one line.")
    return text


def _time_of_day(text: str) -> str:
    if not _TIME_OF_DAY.fullmatch(text):
        raise ValueError('a time of day is written "HH:MM", in quotes, such as "03:00".')
    return text


def _known_version(value: object) -> object:
    # Python holds True and 1.0 to be 1, and pydantic's Literal follows it.
    if type(value) is not int or value != 1:
        raise ValueError("this program reads version 1 of the policy format; write version: 1.")
    return value


def exact_epsilon(value: object) -> Decimal:
    """The epsilon that was written, with three places.

    Raises:
        ValueError: not a number without quotes, not above 0, too large, or with more places.
    """
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        message = "expected a number without quotes, such as 2.0."
        raise ValueError(message)  # noqa: TRY004 - pydantic collects ValueError and no TypeError
    exact = Decimal(value)
    places = exact.as_tuple().exponent
    if not isinstance(places, int) or places < -PLACES:
        raise ValueError(f"an epsilon has at most {PLACES} decimals; {exact} has more.")
    if not 0 < exact <= MOST_EPSILON:
        raise ValueError(f"an epsilon is above 0 and at most {MOST_EPSILON}; {exact} is not.")
    return exact.quantize(Decimal("0.001"))


def _covers_something(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise ValueError("an attribute that covers nothing is not protected; name a slot or shelf.")
    return names


def _nothing_is_an_empty_mapping(value: object) -> object:
    """A key whose entries are all commented out grants nothing, as if it were not there."""
    return {} if value is None else value


def _nothing_is_an_empty_list(value: object) -> object:
    return () if value is None else value


Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
Line = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_LINE),
    AfterValidator(_one_line),
]
Reference = Annotated[str, StringConstraints(max_length=81)]
Epsilon = Annotated[Decimal, BeforeValidator(exact_epsilon)]


ALLOCATION_KEYS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "online": (frozenset({"charges_per_cap"}), frozenset()),
    "preallocated": (frozenset({"planned"}), frozenset()),
    "standing": (frozenset(), frozenset({"candidates", "releases", "weights"})),
}
"""The keys that each rule must have, and those that it may have."""

ALLOCATION_NAMES = frozenset[str]().union(*(a | b for a, b in ALLOCATION_KEYS.values()))


class EpochPart(OwnersModel):
    """For how long the caps are promised."""

    renew: Literal["manual", "monthly", "weekly"] = Field(
        default="manual", description="when a new epoch begins"
    )
    tick: Annotated[str, AfterValidator(_time_of_day)] = Field(
        default="03:00", description="the time of day at which an epoch may begin by itself"
    )


class SelectionPart(OwnersModel):
    """How a view is drawn."""

    mechanism: Literal[
        "exponential", "weighted_exponential", "permute_and_flip", "randomized_response"
    ] = Field(description="the mechanism that draws a view")


class AllocationPart(OwnersModel):
    """How much of a cap one release may cost; each rule has keys of its own.

    A number that was not written is 0, which cannot be written.
    """

    mode: Literal["online", "preallocated", "standing"] = Field(
        description="the rule that shares a cap among releases"
    )
    charges_per_cap: int = Field(
        default=0, ge=1, le=16, description="how many releases one cap pays for (online)"
    )
    planned: int = Field(
        default=0,
        ge=1,
        le=16,
        description="how many releases are planned for each attribute (preallocated)",
    )
    candidates: int = Field(
        default=0, ge=2, le=16, description="how many views a release chooses from (standing)"
    )
    releases: int = Field(
        default=0, ge=1, le=16, description="how many releases a slot may have (standing)"
    )
    weights: dict[Reference, Annotated[int, Field(ge=1, le=16)]] = Field(
        default_factory=dict,
        max_length=64,
        description="the parts in which slots share a cap, 1 where none is named (standing)",
    )

    @model_validator(mode="after")
    def _keys_of_the_rule(self) -> Self:
        required, optional = ALLOCATION_KEYS[self.mode]
        given = ALLOCATION_NAMES & self.model_fields_set
        for name in sorted(required - given):
            raise ValueError(f"mode {self.mode} needs the key {name}; write it.")
        for name in sorted(given - required - optional):
            raise ValueError(f"mode {self.mode} has no key {name}; remove it.")
        return self


class ShelfPart(OwnersModel):
    """A run of positions."""

    positions: int = Field(ge=1, le=10_000, description="how many memories the shelf has room for")
    tokens: int = Field(ge=8, le=512, description="how long each memory may be, in tokens")
    unprotected: bool = Field(
        default=False, description="the explicit word that no attribute needs to cover the shelf"
    )


class GenericViewPart(OwnersModel):
    """The fallback: it needs no memory to be right."""

    guidance: Line = Field(description="the sentence that tells the model how to answer")


class ViewPart(OwnersModel):
    """A way to answer, and the memory that speaks for it."""

    guidance: Line = Field(description="the sentence that tells the model how to answer")
    supports: tuple[Line, ...] = Field(
        min_length=1,
        max_length=MOST_STATEMENTS,
        description="first-person statements that speak for the view when memory is close to them",
    )
    examples: tuple[Line, ...] = Field(
        default=(),
        max_length=MOST_STATEMENTS,
        description="questions for which the view is relevant",
    )


class ViewsPart(BaseModel):
    """A slot's vocabulary: the generic view, and any others under names of their own."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    # This is how pydantic is told the type of keys of the owner's own choosing.
    __pydantic_extra__: dict[Name, ViewPart] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]

    generic: GenericViewPart = Field(description="the slot's fallback view")

    @property
    def named(self) -> dict[Name, ViewPart]:
        """The views besides the generic one, in the order of the file."""
        return self.__pydantic_extra__

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if len(self.named) + 1 > MOST_VIEWS:
            raise ValueError(f"a slot has at most {MOST_VIEWS} views; remove some.")
        return self


class SlotPart(OwnersModel):
    """A topic: where its memories lie, and in which ways it can be answered."""

    description: Line = Field(description="the words by which a question is recognised")
    shelves: dict[Name, ShelfPart] = Field(
        min_length=1, max_length=64, description="the shelves of the slot"
    )
    views: ViewsPart = Field(description="the slot's vocabulary of views")
    charge_also: tuple[Reference, ...] = Field(
        default=(),
        max_length=64,
        description="attributes that answers about the slot are charged to as well",
    )


class AttributePart(OwnersModel):
    """Something to protect."""

    cap: Epsilon = Field(description="the most epsilon that one epoch may cost")
    implied_by: Annotated[tuple[Reference, ...], AfterValidator(_covers_something)] = Field(
        max_length=4096, description="the slots and shelves whose memories may imply the attribute"
    )


class AppPart(OwnersModel):
    """What one app may ask for; nothing unless it is written here."""

    slots: Annotated[tuple[Reference, ...], BeforeValidator(_nothing_is_an_empty_list)] = Field(
        default=(), max_length=64, description="the slots that the app may ask about"
    )
    quota: dict[Reference, Epsilon] = Field(
        default_factory=dict,
        max_length=64,
        description="the most epsilon of an attribute's cap that this app may use up",
    )


class PolicyDocument(OwnersModel):
    """One policy file."""

    version: Annotated[Literal[1], BeforeValidator(_known_version)] = Field(
        description="the version of this format, 1"
    )
    epoch: EpochPart = Field(
        default_factory=EpochPart, description="for how long the caps are promised"
    )
    selection: SelectionPart = Field(description="how a view is drawn")
    allocation: AllocationPart = Field(description="how much of a cap one release may cost")
    slots: dict[Name, SlotPart] = Field(
        min_length=1, max_length=64, description="the topics that memory is kept about"
    )
    attributes: dict[Name, AttributePart] = Field(
        default_factory=dict, max_length=64, description="what is protected"
    )
    apps: Annotated[
        dict[Name, Annotated[AppPart, BeforeValidator(_nothing_is_an_empty_mapping)]],
        BeforeValidator(_nothing_is_an_empty_mapping),
    ] = Field(default_factory=dict, max_length=256, description="which apps may ask for what")
