"""`docs/guarantee.md` names real tests for every statement, and the mutants that there are."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from tests.contracts.checks import SINGLE_TURN_CHECKS
from tests.contracts.fused_mutants import MUTANTS as FUSED_MUTANTS
from tests.contracts.mutants import MUTANTS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "guarantee.md").read_text(encoding="utf-8")
REFERENCE = re.compile(r"`(tests/[\w/]+\.py)::([\w:]+)`")
PARTS = ["C1", "C2", "C3", "C4", "C5", "C6", "C7"]


def sections() -> dict[str, str]:
    """The text below each heading of the third level, and above the next heading."""
    found = re.split(r"^(#{2,3}) (.+)$", TEXT, flags=re.MULTILINE)[1:]
    return {
        title: body
        for level, title, body in zip(found[::3], found[1::3], found[2::3], strict=True)
        if level == "###"
    }


def section(part: str) -> str:
    """The section about one condition of the contract."""
    (body,) = (body for title, body in sections().items() if title.startswith(f"{part}. "))
    return body


@cache
def definitions(path: str) -> set[str]:
    """All functions and classes of a module, methods as `Class::method`."""
    found: set[str] = set()
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}::{each.name}"
                for each in node.body
                if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    return found


def named(text: str) -> list[tuple[str, str]]:
    return [(match[1], match[2]) for match in REFERENCE.finditer(text)]


@pytest.mark.parametrize(("path", "name"), sorted(set(named(TEXT))))
def test_every_test_that_is_named_exists(path: str, name: str) -> None:
    assert (ROOT / path).is_file(), path
    assert name in definitions(path)


def test_nothing_else_looks_like_the_name_of_a_test() -> None:
    """So a name that is misspelt in form is not passed over."""
    without = REFERENCE.sub("", TEXT)
    assert [line for line in without.splitlines() if "::" in line] == []
    assert not re.search(r"\btest_\w+", without.replace("tests/", "").replace("test_guarantee", ""))


@pytest.mark.parametrize("title", sections())
def test_every_statement_has_a_test(title: str) -> None:
    assert named(sections()[title])


@pytest.mark.parametrize("part", PARTS)
def test_every_condition_is_covered_and_lists_its_mutants(part: str) -> None:
    body = section(part)
    (listed,) = re.findall(r"^Mutants: (.+)\.$", body, flags=re.MULTILINE)
    assert listed.split(", ") == [mutant.name for mutant in MUTANTS if mutant.breaks == part]
    assert len(named(body)) >= 2


def test_every_mutant_of_fused_text_is_listed_once() -> None:
    fused = REFERENCE.sub("", TEXT[TEXT.index("## 10. ") :])
    listed = re.findall(r"^Mutants.*$", fused, flags=re.MULTILINE)
    names = [name for line in listed for name in re.findall(r"\b[a-z]+_[a-z_]+\b", line)]
    assert sorted(names) == sorted(FUSED_MUTANTS)


def test_every_check_that_mutants_die_of_guards_some_condition() -> None:
    guards = {name for part in PARTS for _, name in named(section(part))}
    assert {check.__name__ for check in SINGLE_TURN_CHECKS} <= guards


def test_no_test_is_named_twice_for_one_statement() -> None:
    for title, body in sections().items():
        found = named(body)
        assert len(found) == len(set(found)), title


@pytest.mark.parametrize(
    "word",
    [
        "Exponential mechanism",
        "Weighted exponential mechanism",
        "Permute-and-flip",
        "Randomised response",
        "Online and preallocated",
        "Standing views",
        "Theorem 1",
        "Lemma 1",
        "Proposition 1",
        "Distance",
        "Odds",
        "Units",
        "Quotas",
        "Epochs",
        "When a group grows",
        "Copies, marks and crashes",
        "Cells and rows",
        "Theorem 2",
        "Whole weights",
        "What a draw costs",
        "Calibration",
        "The paper's mixture",
    ],
)
def test_every_part_of_the_promise_is_stated(word: str) -> None:
    assert word in sections()


def test_sections_that_are_linked_exist() -> None:
    titles = re.findall(r"^## (.+)$", TEXT, flags=re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
    assert set(re.findall(r"\]\(#([\w-]+)\)", TEXT)) <= anchors
