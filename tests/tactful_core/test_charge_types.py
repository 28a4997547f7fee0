"""What must not be charged cannot be written: the type checker refuses it.

Each snippet is one statement after the same imports; mypy says what is wrong with it, in one run.
"""

import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import tactful_core

pytest.importorskip("mypy", reason="the type checker is a tool of development: `make setup`")

PREAMBLE = """\
from dataclasses import replace
from fractions import Fraction

from tactful_core.entries import Charge
from tactful_core.interface import Release
from tactful_core.layout import View
from tactful_core.ledger import Admitted, Refused
from tactful_core.scoring import Scores
from tactful_core.selection import Exponential, PermuteAndFlip, RandomizedResponse
from tactful_core.values import Secret, Units

epsilon = Units(1)


def pay(units: Units) -> None: ...


def show(view: View) -> None: ...


def charge_with(units: Units) -> Charge: ...  # type: ignore[empty-body]


def private() -> Secret[tuple[int, ...]]: ...  # type: ignore[empty-body]


def drawn() -> Release: ...  # type: ignore[empty-body]


def answer() -> Admitted | Refused: ...  # type: ignore[empty-body]


"""
ALLOWED = (
    "pay(Exponential(epsilon).charge)",
    "pay(PermuteAndFlip(epsilon).charge)",
    "pay(RandomizedResponse(epsilon).charge)",
    "charge_with(Exponential(epsilon).charge)",
    "show(drawn().view)",
)
REFUSED = {
    "pay(Exponential(epsilon).range)": "arg-type",
    "charge_with(Exponential(epsilon).range)": "arg-type",
    "replace(charge_with(epsilon), units=Exponential(epsilon).range)": "arg-type",
    "pay(PermuteAndFlip(epsilon).range)": "attr-defined",
    "pay(RandomizedResponse(epsilon).range)": "attr-defined",
    "pay(1)": "arg-type",
    "pay(Fraction(1, 2))": "arg-type",
    "show(private())": "arg-type",
    "show(drawn())": "arg-type",
    "Scores((0,), (0,))": "arg-type",
    "private()[0]": "index",
    "answer().charge": "union-attr",
}


@cache
def complaints() -> dict[str, str]:
    """What mypy has against each statement, by its code; one run for all of them."""
    statements = [*ALLOWED, *REFUSED]
    first = PREAMBLE.count("\n") + 1
    with TemporaryDirectory() as folder:
        snippet = Path(folder) / "snippet.py"
        snippet.write_text(PREAMBLE + "\n".join(statements) + "\n", encoding="utf-8")
        run = subprocess.run(
            [
                sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-pretty",
                "--cache-dir", str(Path(folder) / "cache"), str(snippet),
            ],
            env={"MYPYPATH": str(Path(tactful_core.__path__[0]).parent)},
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
    assert "Found" in run.stdout, run.stdout + run.stderr
    found: dict[str, str] = {}
    for line in run.stdout.splitlines()[:-1]:
        _, number, problem = line.split(":", 2)
        assert int(number) >= first, line
        found[statements[int(number) - first]] = problem.rpartition("[")[2].rstrip("]")
    return found


@pytest.mark.parametrize("statement", ALLOWED)
def test_is_allowed(statement: str) -> None:
    assert statement not in complaints()


@pytest.mark.parametrize(("statement", "code"), REFUSED.items())
def test_is_refused(statement: str, code: str) -> None:
    assert complaints().get(statement) == code
