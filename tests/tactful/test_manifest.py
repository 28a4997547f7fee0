"""A manifest says what an app asks for, and is sound or refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tactful.manifest import Manifest, Setting, SettingValue
from tactful.wire import EventKind

SOUND: dict[str, Any] = {"name": "meals", "title": "Meals", "version": "1.0"}


def test_asks_for_nothing_unless_it_says_so() -> None:
    manifest = Manifest(**SOUND)
    assert manifest.slots == ()
    assert manifest.events == ()


def test_survives_being_sent() -> None:
    manifest = Manifest(**SOUND, slots=("food",), events=(EventKind.MESSAGE,))
    assert Manifest.model_validate_json(manifest.model_dump_json()) == manifest


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "Meals"),
        ("name", ""),
        ("title", ""),
        ("title", "Me\033[31mals"),
        ("title", "two\nlines"),
        ("title", "x" * 81),
        ("version", "\t"),
        ("slots", ("Food!",)),
        ("slots", tuple(f"s{number}" for number in range(33))),
        ("slots", ("food", "food")),
        ("events", ("memory_written",)),
        ("events", (EventKind.MESSAGE, EventKind.MESSAGE)),
        ("fresh", {"food": 3}),
        ("fresh", {"Food!": 3}),
        ("folders", ({"purpose": "x", "mode": "all"},)),
        ("power", "all"),
    ],
)
def test_unsound_field_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ValidationError, match=field):
        Manifest(**{**SOUND, field: value})


def test_cannot_be_changed() -> None:
    manifest = Manifest(**SOUND)
    with pytest.raises(ValidationError, match="frozen"):
        manifest.name = "money"


@pytest.mark.parametrize(
    ("default", "fits", "fits_not"),
    [
        (True, False, 1),
        (2, 3, 2.5),
        (2, 3, True),
        (2.5, 3, "3"),
        ("any", "", 1),
    ],
)
def test_value_of_a_setting_is_of_the_kind_of_its_default(
    default: SettingValue, fits: SettingValue, fits_not: SettingValue
) -> None:
    setting = Setting(key="one", title="One", default=default)
    assert setting.refusal(fits) is None
    assert "must be" in str(setting.refusal(fits_not))


def test_default_of_a_choice_is_one_of_the_choices() -> None:
    with pytest.raises(ValidationError, match="one of the choices"):
        Setting(key="one", title="One", default="a", choices=("b", "c"))
