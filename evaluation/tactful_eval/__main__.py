"""`python -m tactful_eval contract | allocation | bench`, each with `--json`.

Decides arguments and what is printed. What is *not* here: any number.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from tactful_core.values import epsilon_of
from tactful_eval import comparison
from tactful_eval.benchmark import profiles
from tactful_eval.comparison import EqualPoint, Row
from tactful_eval.contract import Scenario, reference
from tactful_eval.courses import Result
from tactful_eval.ledger_speed import ledger_speed
from tactful_eval.report import as_json, table
from tactful_eval.selection_speed import selection_speed

Document = Mapping[str, object]

_COLUMNS = ("target", "neutral", "auc", "under_half", "hit_rate", "other")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one experiment and prints its result."""
    options = _parser().parse_args(arguments)
    document: Document = options.experiment(options)
    print(as_json(document) if options.json else options.text(document))


def contract(options: argparse.Namespace) -> Document:
    """The reference numbers of GUARANTEE §4."""
    scenario = Scenario(options.cap, options.charges_per_cap, options.target_turns)
    return asdict(reference(scenario))


def allocation(options: argparse.Namespace) -> Document:
    """The table of mechanisms and allocation rules, and three points of comparison."""
    people = profiles(slots_each=1)
    named = {
        "ours": comparison.OURS,
        "online": comparison.PAPER_ONLINE,
        "preallocated": comparison.PAPER_PREALLOCATED,
    }
    results = {name: comparison.certificate(rule, people) for name, rule in named.items()}
    auc = comparison.equal_auc(comparison.PAPER_PREALLOCATED, people)
    neutral = comparison.equal_neutral(comparison.PAPER_PREALLOCATED, people)
    return {
        "summary": {name: _three(result) for name, result in results.items()},
        "hit_rate": results["ours"].hit_rate,
        "equal_auc": _equal(auc),
        "equal_neutral": _equal(neutral),
        "profiles": len(people),
        "rows": [_row(row) for row in comparison.rows(options.processes)],
    }


def bench(options: argparse.Namespace) -> Document:
    """Ratios and times, measured in one run."""
    if options.what == "ledger":
        return asdict(ledger_speed(options.folder))
    if options.what == "selection":
        return {"microseconds": selection_speed()}
    ledger = asdict(ledger_speed(options.folder))
    return {"ledger": ledger, "selection": {"microseconds": selection_speed()}}


def _three(result: Result) -> Document:
    return {"target": result.target, "neutral": result.neutral, "auc": result.auc}


def _equal(point: EqualPoint) -> Document:
    return {
        "ours": _three(point.ours),
        "preallocated": _three(point.other),
        "epsilon": point.epsilon,
        "worse": point.worse,
    }


def _row(row: Row) -> Document:
    return {
        "rule": row.rule,
        "mechanism": row.mechanism,
        "candidates": row.candidates,
        "slots": row.slots,
        "cap": row.cap,
        **{name: getattr(row.result, name) for name in _COLUMNS},
        "loss": epsilon_of(row.result.loss),
    }


def _lines(document: Document) -> str:
    return "\n".join(f"{name}: {value}" for name, value in document.items())


def _allocation_text(document: Document) -> str:
    rows = document["rows"]
    if not isinstance(rows, list):
        raise TypeError("The allocation table has no rows.")
    header = ("rule", "mechanism", "candidates", "slots", "cap", *_COLUMNS, "loss")
    listed = table(header, [[row[name] for name in header] for row in rows])
    rest = {name: value for name, value in document.items() if name != "rows"}
    return f"{listed}\n\n{_lines(rest)}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tactful_eval", description="What promises come to.")
    experiments = parser.add_subparsers(required=True, metavar="EXPERIMENT")

    each = _experiment(experiments, "contract", contract, _lines)
    each.add_argument("--cap", default="2", help="B, the cap of each attribute (default: 2)")
    each.add_argument("--charges-per-cap", type=int, default=3, help="K (default: 3)")
    each.add_argument("--target-turns", type=int, default=8, help="of 2n turns (default: 8)")

    each = _experiment(experiments, "allocation", allocation, _allocation_text)
    each.add_argument("--processes", type=int, help="how many at once (default: one a processor)")

    each = _experiment(experiments, "bench", bench, _lines)
    each.add_argument("what", nargs="?", choices=("ledger", "selection"), help="default: both")
    each.add_argument("--folder", type=Path, help="on the disk to measure (default: temporary)")
    return parser


def _experiment(
    experiments: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run: Callable[[argparse.Namespace], Document],
    text: Callable[[Document], str],
) -> argparse.ArgumentParser:
    summary = (run.__doc__ or "").strip()
    parser = experiments.add_parser(name, help=summary, description=summary)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(experiment=run, text=text)
    return parser


if __name__ == "__main__":
    main()
