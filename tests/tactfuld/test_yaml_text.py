"""YAML trees: exact numbers, exact places, bounded work."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tactfuld.yaml_text import MOST_VALUES, Place, place_of, read_yaml


def value(text: str) -> object:
    yaml = read_yaml(text, source="a.yaml")
    assert yaml.problems == ()
    return yaml.value


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("0.1", Decimal("0.1")),
        ("-1.50", Decimal("-1.50")),
        ("7", 7),
        ("true", True),
        ("False", False),
        ("", None),
        ("~", None),
        ("null", None),
        ("off", "off"),
        ("yes", "yes"),
        ("'1'", "1"),
        ('""', ""),
        ("010", "010"),
        ("1_000", "1_000"),
        ("1e3", "1e3"),
        ("1.0e-5", Decimal("0.000010")),
        ("1.0E-5", "1.0E-5"),
        ("1.0e-100", "1.0e-100"),
        ("0x10", "0x10"),
        ("9" * 40, "9" * 40),
        ("2001-01-01", "2001-01-01"),
    ],
)
def test_scalars_mean_what_they_look_like(written: str, meant: object) -> None:
    found = value(f"key: {written}\n")
    assert found == {"key": meant}
    assert isinstance(found, dict)
    assert type(found["key"]) is type(meant)


def test_lists_and_mappings_keep_their_order() -> None:
    found = value("b: [x, {k: 1}]\na:\n  - 2\n")
    assert found == {"b": ("x", {"k": 1}), "a": (2,)}
    assert isinstance(found, dict)
    assert list(found) == ["b", "a"]


def test_places_are_those_of_values_or_of_the_keys_above_blocks() -> None:
    root = read_yaml("a: {b: 1}\nc:\n  - x\n  -   y\nd:\n", source="a.yaml").root
    assert root is not None
    places = [("a", "b"), ("c",), ("c", 1), ("d",), ("c", 9), ("nowhere",)]
    assert [place_of(root, path) for path in places] == [
        Place(1, 8), Place(2, 1), Place(4, 7), Place(5, 1), Place(2, 1), Place(1, 1),
    ]  # fmt: skip


@pytest.mark.parametrize("bomb", ["a: [" + "x," * 500_000 + "]", "k: 1\n" * 200_000, "[" * 900_000])
def test_long_texts_stop_at_a_limit(bomb: str) -> None:
    assert len(bomb) <= 1 << 20
    yaml = read_yaml(bomb, source="a.yaml")
    assert yaml.root is None
    assert yaml.problems


def test_as_many_values_as_the_limit_are_read() -> None:
    assert read_yaml("[" + "x," * (MOST_VALUES - 1) + "]", source="a.yaml").problems == ()
    assert read_yaml("[" + "x," * MOST_VALUES + "]", source="a.yaml").problems != ()


def test_an_alias_bomb_is_refused_before_it_grows() -> None:
    lines = ["a: &a [x, x]"]
    for old, new in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{new}: &{new} [*{old}, *{old}, *{old}, *{old}, *{old}, *{old}]")
    yaml = read_yaml("\n".join(lines), source="a.yaml")
    assert yaml.root is None
    assert str(yaml.problems[-1]) == (
        "a.yaml:2: b[0]: aliases (*name) are not read; write the value out."
    )


@given(st.text() | st.text(alphabet=" \n:-?[]{},&*!|>%@`'\"#ab01.\\xuU~<"))
def test_any_text_is_read_or_refused_at_a_line_of_it(text: str) -> None:
    yaml = read_yaml(text, source="a.yaml")
    lines = text.count("\n") + 1
    assert all(0 < problem.line <= lines for problem in yaml.problems)
    assert all(problem.sentence.endswith((".", "?")) for problem in yaml.problems)
