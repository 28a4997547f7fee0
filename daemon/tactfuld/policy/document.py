"""The policy file as pydantic models: which keys there are, and what each may hold.

Decides the shape of one part at a time. What is *not* here: what a single value may be (`fields`),
whether names fit together (`references`), positions and privacy units (`promises`), what an editor
is told (`schema`), YAML itself (`tactfuld.yaml_text`).

Invariants:

- unknown keys are refused everywhere; nothing is converted from one type to another;
- defaults deny: a file without `apps` lets nobody ask, an app without `slots` may ask for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from tactfuld.policy.fields import (
    GROUP_PATTERN,
    MOST_DRAWS,
    Cron,
    Delta,
    Epsilon,
    Folder,
    Group,
    Line,
    Name,
    Phrase,
    Reference,
    TimeOfDay,
    Zone,
)
from tactfuld.yaml_models import NAME_PATTERN, OwnersModel

MOST_VIEWS = 64
MOST_STATEMENTS = 16


def _known_version(value: object) -> object:
    # Python holds True and 1.0 to be 1, and pydantic's Literal follows it.
    if type(value) is not int or value != 1:
        raise ValueError("this program reads version 1 of the policy format; write version: 1.")
    return value


def _covers_something(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise ValueError("an attribute that covers nothing is not protected; name a slot or shelf.")
    return names


def _nothing_is_an_empty_mapping(value: object) -> object:
    """A key whose entries are all commented out grants nothing, as if it were not there."""
    return {} if value is None else value


def _nothing_is_an_empty_list(value: object) -> object:
    return () if value is None else value


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
    tick: TimeOfDay = Field(
        default="03:00", description="the time of day at which an epoch may begin by itself"
    )


class SelectionPart(OwnersModel):
    """How a view is drawn."""

    mechanism: Literal[
        "exponential", "weighted_exponential", "permute_and_flip", "randomized_response"
    ] = Field(description="the mechanism that draws a view")


def _keys_by_rule(schema: dict[str, Any]) -> None:
    """Tells editors which keys each rule has, and of no default that cannot be written."""
    for key in schema["properties"].values():
        key.pop("default", None)
    schema["allOf"] = [
        {
            "if": {"properties": {"mode": {"const": mode}}},
            "then": {
                "required": sorted(required),
                "propertyNames": {"enum": ["mode", *sorted(required | optional)]},
            },
        }
        for mode, (required, optional) in ALLOCATION_KEYS.items()
    ]


class AllocationPart(OwnersModel):
    """How much of a cap one release may cost; each rule has keys of its own.

    A number that was not written is 0, which cannot be written.
    """

    model_config = ConfigDict(json_schema_extra=_keys_by_rule)

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

    model_config = ConfigDict(
        extra="allow",
        frozen=True,
        strict=True,
        json_schema_extra={
            "propertyNames": {"pattern": NAME_PATTERN},
            "maxProperties": MOST_VIEWS,
        },
    )

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


class RouterPart(OwnersModel):
    """Public words that decide, before descriptions do, whether a question is about a slot."""

    words: tuple[Phrase, ...] = Field(
        default=(), max_length=64, description="a question with one of these is about the slot"
    )
    never: tuple[Phrase, ...] = Field(
        default=(), max_length=64, description="a question with one of these is not"
    )


class ReadPart(OwnersModel):
    """Which shelves are read for a question of one kind."""

    when: tuple[Phrase, ...] = Field(
        min_length=1,
        max_length=64,
        description="words in the question, or whole questions that it is like",
    )
    shelves: tuple[Reference, ...] = Field(
        min_length=1, max_length=64, description="the shelves of the slot that are read then"
    )


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
    router: RouterPart = Field(
        default_factory=RouterPart, description="words that make a question be about the slot"
    )
    reads: tuple[ReadPart, ...] = Field(
        default=(),
        max_length=16,
        description="for which questions only some shelves are read; otherwise all are",
    )


class FusionPart(OwnersModel):
    """What text that is written from memory itself may cost an attribute."""

    epsilon: Epsilon = Field(
        description="the most epsilon that fused text may cost in one epoch, besides the cap"
    )


class AttributePart(OwnersModel):
    """Something to protect."""

    cap: Epsilon = Field(description="the most epsilon that one epoch may cost")
    implied_by: Annotated[tuple[Reference, ...], AfterValidator(_covers_something)] = Field(
        max_length=4096,
        description="the slots and shelves whose memories may imply the attribute",
        json_schema_extra={"minItems": 1},
    )
    fusion: FusionPart | None = Field(
        default=None, description="lets text be fused from the attribute's shelves, at this price"
    )


class PrivacyPart(OwnersModel):
    """What fused text and documents are accounted with."""

    delta: Delta = Field(description="the probability with which fused text may cost more")
    planned_draws: int = Field(
        ge=1, le=MOST_DRAWS, description="how many tokens an epoch is planned for"
    )


class GroupPart(OwnersModel):
    """What one type of span in documents may cost."""

    epsilon: Epsilon = Field(description="the most epsilon that the spans of one document may cost")


class DocumentsPart(OwnersModel):
    """What is protected in documents that are rewritten."""

    groups: dict[Group, GroupPart] = Field(
        min_length=1,
        max_length=64,
        description="the types of spans that are protected",
        json_schema_extra={"propertyNames": {"pattern": GROUP_PATTERN}},
    )


class TimerPart(OwnersModel):
    """When an app is told that a time has come."""

    cron: Cron = Field(
        description="minute, hour, day of the month, month, day of the week, as in crontab"
    )
    zone: Zone | None = Field(
        default=None, description="the time zone, such as Europe/Paris; the machine's without it"
    )


def _cron_alone(value: object) -> object:
    """A timer may be written as its cron expression alone."""
    return {"cron": value} if isinstance(value, str) else value


TimerOrCron = Annotated[
    TimerPart,
    BeforeValidator(_cron_alone, json_schema_input_type=TimerPart | str),
]


class AppPart(OwnersModel):
    """What one app may ask for; nothing unless it is written here."""

    slots: Annotated[
        tuple[Reference, ...],
        BeforeValidator(
            _nothing_is_an_empty_list, json_schema_input_type=tuple[Reference, ...] | None
        ),
    ] = Field(default=(), max_length=64, description="the slots that the app may ask about")
    quota: dict[Reference, Epsilon] = Field(
        default_factory=dict,
        max_length=64,
        description="the most epsilon of an attribute's cap that this app may use up",
    )
    folders: dict[Folder, Literal["read", "write"]] = Field(
        default_factory=dict, max_length=64, description="the folders that the app may open"
    )
    document_groups: tuple[Reference, ...] = Field(
        default=(),
        max_length=64,
        description="the types of spans that documents may hold which the app has rewritten",
    )
    events: tuple[Name, ...] = Field(
        default=(), max_length=64, description="the kinds of events that the app is told of"
    )
    timers: dict[Name, TimerOrCron] = Field(
        default_factory=dict, max_length=16, description="when the app is told the time (timer)"
    )
    hears: tuple[Reference, ...] = Field(
        default=(), max_length=64, description="the apps whose texts the app is told (app)"
    )
    budget_below: dict[Reference, Annotated[int, Field(ge=1, le=1000)]] = Field(
        default_factory=dict,
        max_length=64,
        description="tells the app when a slot has fewer fresh answers left than this (budget)",
    )


AppOrNothing = Annotated[
    AppPart,
    BeforeValidator(_nothing_is_an_empty_mapping, json_schema_input_type=AppPart | None),
]


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
    privacy: PrivacyPart | None = Field(
        default=None, description="what fused text and documents are accounted with"
    )
    documents: DocumentsPart | None = Field(
        default=None, description="what is protected in documents that are rewritten"
    )
    apps: Annotated[
        dict[Name, AppOrNothing],
        BeforeValidator(
            _nothing_is_an_empty_mapping, json_schema_input_type=dict[Name, AppOrNothing] | None
        ),
    ] = Field(default_factory=dict, max_length=256, description="which apps may ask for what")
