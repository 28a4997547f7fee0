"""What a single value of the policy file may be: names, lines of text, amounts, times of day.

Decides one value by itself, and what an editor is told of it. What is *not* here: which key holds
which value (`document`), YAML itself (`tactfuld.yaml_text`).

Invariants:

- nothing is converted from one type to another;
- an epsilon is the decimal that was written, above 0, with at most three places (GUARANTEE §3).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from tactfuld.yaml_models import NAME_PATTERN

MOST_EPSILON = 100
PLACES = 3
LONGEST_LINE = 200
LEAST_DELTA = Decimal("1e-30")
MOST_DELTA = Decimal("0.001")
MOST_DRAWS = 1_000_000
GROUP_PATTERN = r"^[A-Z][A-Z0-9_]{0,39}$"

_FOLDER = re.compile(r"(~|)(/[^/]+)+/?")
_SOME_DAY = datetime(2026, 1, 1, tzinfo=UTC)
_NO_CRON = (
    "a timer is written as in crontab: minute, hour, day of the month, month and day of the week, "
    'such as "0 7 * * mon-fri".'
)
_TIME_OF_DAY = re.compile(r"([01]\d|2[0-3]):[0-5]\d")


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("this text has line breaks or control characters; write it as one line.")
    return text


def _time_of_day(text: str) -> str:
    if not _TIME_OF_DAY.fullmatch(text):
        raise ValueError('a time of day is written "HH:MM", in quotes, such as "03:00".')
    return text


def _has_a_word(text: str) -> str:
    if not any(character.isalnum() for character in text):
        raise ValueError("there is no word here to look for; write one.")
    return text


def _group(name: str) -> str:
    if not re.fullmatch(GROUP_PATTERN, name):
        raise ValueError("a type of span is written in capitals, such as PERSON or DATE_TIME.")
    return name


def _folder(path: str) -> str:
    if not _FOLDER.fullmatch(path) or {".", ".."} & set(path.split("/")) or not path.isprintable():
        raise ValueError('a folder is written from / or from ~ on, without "..": ~/Recipes.')
    return path


def _cron(text: str) -> str:
    from cronsim import CronSim, CronSimError

    try:
        if len(text.split()) != 5:
            raise CronSimError("five fields are expected")
        first = next(CronSim(text, _SOME_DAY), None)
    except (CronSimError, ValueError) as error:
        raise ValueError(_NO_CRON) from error
    if first is None:
        raise ValueError("there is no such day in any year; write another.")
    return text


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (OSError, ValueError, ZoneInfoNotFoundError) as error:
        message = "this machine knows no time zone of that name; write one such as Europe/Paris."
        raise ValueError(message) from error
    return name


def exact_delta(value: object) -> Decimal:
    """The delta that was written.

    Raises:
        ValueError: not a number without quotes, too small, or too large.
    """
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        message = "expected a number without quotes, such as 1.0e-5."
        raise ValueError(message)  # noqa: TRY004 - pydantic collects ValueError and no TypeError
    if not LEAST_DELTA <= value <= MOST_DELTA:
        raise ValueError(
            f"a delta is at least {LEAST_DELTA:e} and at most {MOST_DELTA}; {value} is not."
        )
    return Decimal(value).normalize()


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


Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]

Group = Annotated[str, AfterValidator(_group)]
"""A type of span in documents, as taggers name them: PERSON, DATETIME."""

Line = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_LINE),
    AfterValidator(_one_line),
]

Phrase = Annotated[Line, AfterValidator(_has_a_word)]
"""Words to look for in queries; in read rules also an example of one, with its question mark."""

Reference = Annotated[str, StringConstraints(max_length=81)]
"""A name that stands elsewhere in the file; whether it does, `references` says."""

Epsilon = Annotated[
    Decimal,
    BeforeValidator(
        exact_epsilon, json_schema_input_type=Annotated[float, Field(gt=0, le=MOST_EPSILON)]
    ),
]

Delta = Annotated[
    Decimal,
    BeforeValidator(
        exact_delta,
        json_schema_input_type=Annotated[float, Field(ge=float(LEAST_DELTA), le=float(MOST_DELTA))],
    ),
]

Folder = Annotated[str, StringConstraints(max_length=LONGEST_LINE), AfterValidator(_folder)]

Cron = Annotated[str, StringConstraints(max_length=LONGEST_LINE), AfterValidator(_cron)]

Zone = Annotated[str, StringConstraints(min_length=1, max_length=80), AfterValidator(_zone)]

TimeOfDay = Annotated[
    str,
    AfterValidator(_time_of_day),
    Field(json_schema_extra={"pattern": f"^({_TIME_OF_DAY.pattern})$"}),
]
