"""`python -m tactful_eval contract | allocation | answers | lint | bench`, each with `--json`.

Decides arguments and what is printed. What is *not* here: any number.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from platformdirs import user_cache_path

from tactful_core.values import epsilon_of
from tactful_eval import comparison
from tactful_eval.answer_rates import Rate, Rates, ViewRates, rates
from tactful_eval.answer_writing import KeptAnswers, open_writer
from tactful_eval.benchmark import profiles
from tactful_eval.comparison import EqualPoint, Row
from tactful_eval.contract import Scenario, reference
from tactful_eval.courses import Result
from tactful_eval.coverage_report import coverage_report
from tactful_eval.coverage_training import write_weights
from tactful_eval.ledger_speed import ledger_speed
from tactful_eval.memory_speed import memory_speed
from tactful_eval.report import as_json, table
from tactful_eval.selection_speed import selection_speed
from tactful_eval.view_questions import slots
from tactful_policies import starter_text
from tactfuld.models.embedded import embedded_model_path

Document = Mapping[str, object]

_BENCHES = ("ledger", "selection", "memory")

EVALUATION_DATA = "TACTFUL_EVAL_DATA"
"""The environment variable that names the folder of the evaluation data."""

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


def answers(options: argparse.Namespace) -> Document:
    """In how many answers the everyday policy's views show, against the generic view."""
    kept = KeptAnswers(options.kept)
    with open_writer(options.model, options.threads) as writer:
        found = rates(
            slots(starter_text("everyday")),
            lambda slot: (slot.tuning if options.tuning else slot.reported)[: options.limit],
            lambda prompt, seed: kept.answer(writer, prompt, seed),
        )
    return {"model": options.model.stem, **_totals(found), "rows": list(map(_view, found.views))}


def lint(options: argparse.Namespace) -> Document:
    """How often the coverage lint warns, where it should and where it should not."""
    if options.train is not None:
        return {"written": str(write_weights(options.train))}
    folder = os.environ.get(EVALUATION_DATA)
    return coverage_report(Path(folder) if folder else None)


def bench(options: argparse.Namespace) -> Document:
    """Ratios and times, measured in one run."""
    if options.what == "ledger":
        return asdict(ledger_speed(options.folder))
    if options.what == "selection":
        return {"microseconds": selection_speed()}
    if options.what == "memory":
        return asdict(memory_speed(options.folder))
    return {
        "ledger": asdict(ledger_speed(options.folder)),
        "selection": {"microseconds": selection_speed()},
        "memory": asdict(memory_speed(options.folder)),
    }


def _three(result: Result) -> Document:
    return {"target": result.target, "neutral": result.neutral, "auc": result.auc}


def _equal(point: EqualPoint) -> Document:
    return {
        "ours": _three(point.ours),
        "preallocated": _three(point.other),
        "epsilon": point.epsilon,
        "worse": point.worse,
    }


def _totals(found: Rates) -> Document:
    return {
        "shown": _rate(found.shown),
        "generic": _rate(found.generic),
        "answers": found.answers,
        "words": found.words,
        "breaches": sum(view.breaches for view in found.views),
        "faults": {fault.value: count for fault, count in found.faults.items()},
    }


def _view(view: ViewRates) -> Document:
    return {
        "slot": view.slot,
        "view": view.view,
        "shown": _rate(view.shown),
        "generic": _rate(view.generic),
        "breaches": view.breaches,
    }


def _rate(rate: Rate) -> Document:
    low, high = rate.interval
    return {"hits": rate.hits, "of": rate.of, "share": rate.share, "low": low, "high": high}


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


def _rows(document: Document) -> list[Mapping[str, object]]:
    rows = document["rows"]
    if not isinstance(rows, list):
        raise TypeError("The table has no rows.")
    return rows


def _answers_text(document: Document) -> str:
    header = ("slot", "view", "shown", "generic", "breaches")
    rows = [_answers_row(row) for row in _rows(document)]
    total = ("all", "", _of(document["shown"]), _of(document["generic"]), document["breaches"])
    rest = {name: document[name] for name in ("model", "answers", "words", "faults")}
    return f"{table(header, [*rows, total])}\n\n{_lines(rest)}"


def _answers_row(row: Mapping[str, object]) -> list[object]:
    rates = [_of(row["shown"]), _of(row["generic"])]
    return [row["slot"], row["view"], *rates, row["breaches"]]


def _of(rate: object) -> str:
    match rate:
        case {"hits": int(hits), "of": int(of), "low": float(low), "high": float(high)}:
            return f"{hits}/{of} = {hits / of:.2f} ({low:.2f}-{high:.2f})"
        case _:
            raise TypeError("A rate has another form.")


def _allocation_text(document: Document) -> str:
    rows = _rows(document)
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

    each = _experiment(experiments, "answers", answers, _answers_text)
    installed = embedded_model_path(user_cache_path("tactful") / "models")
    each.add_argument("--model", type=Path, default=installed, help="GGUF file (default: embedded)")
    each.add_argument("--kept", type=Path, help="file that keeps answers, to stop and go on")
    each.add_argument("--limit", type=int, help="the first LIMIT questions only (default: all)")
    each.add_argument("--threads", type=int, help="of the model (default: one a core)")
    each.add_argument("--tuning", action="store_true", help="the questions for trying things out")

    each = _experiment(experiments, "lint", lint, _lines)
    each.add_argument("--train", type=Path, metavar="FILE", help="fit it anew into FILE instead")

    each = _experiment(experiments, "bench", bench, _lines)
    each.add_argument("what", nargs="?", choices=_BENCHES, help="default: all")
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
