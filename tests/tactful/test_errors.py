"""Every error has a code, a number and an exit status of its own kind, and is documented."""

import json
import re
from pathlib import Path

import pytest

from tactful.errors import (
    ERRORS,
    AppError,
    InternalError,
    OperatorError,
    OwnerError,
    PolicyRefused,
    Problem,
    TactfulError,
    by_code,
    from_description,
)

_PROTOCOL = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")

_ROW = re.compile(r"^\| `([a-z_]+)` \| (-\d+) \| \S", re.MULTILINE)


def test_codes_and_numbers_are_unique() -> None:
    assert len({kind.code for kind in ERRORS}) == len(ERRORS)
    assert len({kind.rpc for kind in ERRORS}) == len(ERRORS)


def test_every_class_with_a_code_of_its_own_is_listed() -> None:
    def below(kind: type[TactfulError]) -> set[type[TactfulError]]:
        children = kind.__subclasses__()
        return set(children).union(*(below(child) for child in children))

    families = {AppError, OwnerError, OperatorError}
    own = {kind for kind in below(TactfulError) - families if "code" in vars(kind)}
    assert own == set(ERRORS)


@pytest.mark.parametrize("kind", ERRORS)
def test_code_finds_its_class_again(kind: type[TactfulError]) -> None:
    assert by_code(kind.code) is kind


@pytest.mark.parametrize("code", ["", "nonsense", "internal_error"])
def test_unknown_code_is_an_internal_error(code: str) -> None:
    assert by_code(code) is InternalError


@pytest.mark.parametrize("kind", ERRORS)
def test_what_an_envelope_describes_is_the_same_error_again(kind: type[TactfulError]) -> None:
    told = json.loads(json.dumps(kind("What to do.").described()))
    again = from_description(told)
    assert (type(again), str(again), again.described()) == (kind, "What to do.", told)


def test_the_problems_of_a_file_travel_with_the_error() -> None:
    problems = (
        Problem("/p/policy.yaml", 12, 3, "attributes.debt.cap", "Too large."),
        Problem("/p/policy.yaml", 0, 0, "", "Not a policy."),
    )
    told = PolicyRefused("In short.", problems).described()
    again = from_description(json.loads(json.dumps(told)))
    assert isinstance(again, PolicyRefused)
    assert again.problems == problems
    assert told["problems"] == [
        {
            "file": "/p/policy.yaml",
            "line": 12,
            "column": 3,
            "key": "attributes.debt.cap",
            "message": "Too large.",
        },
        {"file": "/p/policy.yaml", "line": 0, "column": 0, "key": "", "message": "Not a policy."},
    ]


@pytest.mark.parametrize("kind", ERRORS)
def test_every_error_belongs_to_somebody(kind: type[TactfulError]) -> None:
    assert issubclass(kind, AppError | OwnerError | OperatorError)


@pytest.mark.parametrize("kind", ERRORS)
def test_numbers_and_exit_statuses_are_in_their_ranges(kind: type[TactfulError]) -> None:
    assert kind.rpc in {-32700, -32600, -32601, -32602, -32603} or -32099 <= kind.rpc <= -32000
    assert 64 <= kind.exit_status <= 78


def test_documentation_lists_every_error_once_with_its_number() -> None:
    documented = [(code, int(number)) for code, number in _ROW.findall(_PROTOCOL)]
    assert sorted(documented) == sorted((kind.code, kind.rpc) for kind in ERRORS)
