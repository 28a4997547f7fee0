"""`python -m tactful_eval EXPERIMENT [--json]`.

Decides arguments and what is printed. What is *not* here: any number.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path

from platformdirs import user_cache_path

from tactful_core.mixtures import STEPS
from tactful_core.values import epsilon_of
from tactful_eval import comparison
from tactful_eval.answer_rates import Rate, Rates, ViewRates, rates
from tactful_eval.answer_writing import KeptAnswers, open_writer
from tactful_eval.app_speed import app_speed
from tactful_eval.benchmark import profiles
from tactful_eval.comparison import EqualPoint, Row
from tactful_eval.contract import Scenario, reference
from tactful_eval.courses import Result
from tactful_eval.court_documents import CHOOSING, documents
from tactful_eval.coverage_report import coverage_report
from tactful_eval.coverage_training import write_weights
from tactful_eval.engine_speed import engine_speed
from tactful_eval.fusion_speed import fusion_speed
from tactful_eval.ledger_speed import ledger_speed
from tactful_eval.memory_speed import memory_speed
from tactful_eval.peer_speed import NOT_INSTALLED, PeerMissing, peer_speed
from tactful_eval.perplexity import DELTA, DRAWS, Measured, measured
from tactful_eval.recorded_rows import open_recorder
from tactful_eval.report import as_json, table
from tactful_eval.scorer_cases import SETS, cases
from tactful_eval.scorer_rates import EmbeddingJudging, ScorerRates, open_judging, scorer_rates
from tactful_eval.selection_speed import selection_speed
from tactful_eval.turn_speed import turn_speed
from tactful_eval.view_questions import slots
from tactful_policies import starter_text
from tactfuld.inference.engine import available_cores
from tactfuld.models.embedded import embedded_model_path

Document = Mapping[str, object]

EVALUATION_DATA = "TACTFUL_EVAL_DATA"
"""The environment variable that names the folder of the evaluation data."""

_SCORER_RATES = ("best", "special", "generic")

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


def scorers(options: argparse.Namespace) -> Document:
    """How often the best view by contents is the right one, by embeddings and by a model."""
    folder = os.environ.get(EVALUATION_DATA)
    names = options.sets or [name for name in SETS if folder or name != "evidence"]
    data = Path(folder) if folder else None
    chosen = {name: cases(name, data)[options.first :: options.every] for name in names}
    embedding = EmbeddingJudging()
    with open_judging(options.model, options.threads, options.kept) as model:
        rows = [
            _scorer_row(name, scorer, scorer_rates(each, judging))
            for name, each in chosen.items()
            for scorer, judging in (("embedding", embedding), ("model", model))
        ]
        return {
            "model": options.model.stem,
            "embedding_ms": embedding.cost_ms(),
            "model_cost": asdict(model.cost()),
            "rows": rows,
        }


def lint(options: argparse.Namespace) -> Document:
    """How often the coverage lint warns, where it should and where it should not."""
    if options.train is not None:
        return {"written": str(write_weights(options.train))}
    folder = os.environ.get(EVALUATION_DATA)
    return coverage_report(Path(folder) if folder else None)


def perplexities(options: argparse.Namespace) -> Document:
    """Perplexity of court documents under fused draws, between no memory and no protection."""
    folder = os.environ.get(EVALUATION_DATA)
    found = documents(Path(folder) if folder else None)
    with open_recorder(options.model, options.threads, DRAWS) as record:
        enough = CHOOSING + options.documents
        rows = list(islice((each for one in found if (each := record(one))), enough))
    choosing, measuring = rows[:CHOOSING], rows[CHOOSING:]
    return {
        "model": options.model.stem,
        "documents": len(measuring),
        "draws": DRAWS,
        "delta": DELTA,
        "rows": [_perplexity_row(each) for each in measured(choosing, measuring)],
    }


def bench(options: argparse.Namespace) -> Document:
    """Ratios and times, measured in one run."""
    if options.what is not None:
        return _BENCHES[options.what](options)
    return {name: run(options) for name, run in _BENCHES.items() if name not in _APART}


def _peer(options: argparse.Namespace) -> Document:
    """Exits with `NOT_INSTALLED` where there is nothing to compare with."""
    try:
        return asdict(peer_speed(options.model, options.threads or available_cores()))
    except PeerMissing as missing:
        print(missing, file=sys.stderr)
        raise SystemExit(NOT_INSTALLED) from missing


_BENCHES: Mapping[str, Callable[[argparse.Namespace], Document]] = {
    "ledger": lambda options: asdict(ledger_speed(options.folder)),
    "selection": lambda _options: {"microseconds": selection_speed()},
    "memory": lambda options: asdict(memory_speed(options.folder)),
    "apps": lambda options: asdict(app_speed(options.folder)),
    "peer": _peer,
    "engine": lambda options: {
        **asdict(engine_speed(options.model, threads=options.threads)),
        "turn": asdict(turn_speed(options.folder)),
    },
    "fusion": lambda options: asdict(fusion_speed(options.model, threads=options.threads)),
}

_APART = frozenset({"peer"})
"""What is measured only when it is asked for by name."""


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


def _scorer_row(name: str, scorer: str, found: ScorerRates) -> Document:
    shares = {each: _rate(getattr(found, each)) for each in _SCORER_RATES}
    return {"cases": name, "scorer": scorer, **shares, "apart": found.apart}


def _perplexity_row(row: Measured) -> Document:
    shown: dict[str, object] = {
        "kernel": row.kernel,
        "epsilon": row.epsilon,
        "certified": row.certified,
    }
    if row.parameters is not None:
        alpha, limit, divergence = row.parameters.steps
        shown |= {"alpha": alpha, "L": limit / STEPS, "c": divergence / STEPS}
    if row.perplexity is not None:
        shown |= asdict(row.perplexity)
        shown["between_the_ends"] = row.perplexity.between_the_ends
    return shown


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


def _scorers_text(document: Document) -> str:
    header = ("cases", "scorer", *_SCORER_RATES, "apart")
    rows = [
        [row["cases"], row["scorer"], *(_of(row[each]) for each in _SCORER_RATES), row["apart"]]
        for row in _rows(document)
    ]
    rest = {name: value for name, value in document.items() if name != "rows"}
    return f"{table(header, rows)}\n\n{_lines(rest)}"


def _perplexity_text(document: Document) -> str:
    header = ("kernel", "epsilon", "certified", "alpha", "value", "low", "high", "between_the_ends")
    rows = [[row.get(name) for name in header] for row in _rows(document)]
    rest = {name: value for name, value in document.items() if name != "rows"}
    return f"{table(header, rows)}\n\n{_lines(rest)}"


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

    each = _experiment(experiments, "scorers", scorers, _scorers_text)
    each.add_argument("--model", type=Path, default=installed, help="GGUF file (default: embedded)")
    each.add_argument("--kept", type=Path, help="file that keeps what it says, to stop and go on")
    each.add_argument(
        "--sets", nargs="+", choices=SETS, help="which cases (default: all there are)"
    )
    each.add_argument("--every", type=int, default=1, help="each n-th case only (default: 1)")
    each.add_argument("--first", type=int, default=0, help="beginning with this one (default: 0)")
    each.add_argument("--threads", type=int, help="of the model (default: one a core)")

    each = _experiment(experiments, "perplexity", perplexities, _perplexity_text)
    each.add_argument("--model", type=Path, default=installed, help="GGUF file (default: embedded)")
    each.add_argument("--documents", type=int, default=10, help="to measure at most (default: 10)")
    each.add_argument("--threads", type=int, help="of the model (default: one a core)")

    each = _experiment(experiments, "lint", lint, _lines)
    each.add_argument("--train", type=Path, metavar="FILE", help="fit it anew into FILE instead")

    each = _experiment(experiments, "bench", bench, _lines)
    each.add_argument("what", nargs="?", choices=_BENCHES, help="default: all but peer")
    each.add_argument("--folder", type=Path, help="on the disk to measure (default: temporary)")
    each.add_argument("--model", type=Path, default=installed, help="GGUF file (default: embedded)")
    each.add_argument("--threads", type=int, help="of the model (default: one a core)")
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
