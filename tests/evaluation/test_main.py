"""What `python -m tactful_eval` prints is one JSON object of a fixed shape, or text."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tactful_core.entries import Mechanism
from tactful_eval import __main__ as program
from tactful_eval import comparison, ledger_speed
from tactful_eval.app_speed import AppSpeed
from tactful_eval.benchmark import Profile, profiles
from tactful_eval.engine_speed import EngineSpeed
from tactful_eval.fusion_speed import FusionSpeed
from tactful_eval.ledger_speed import LedgerSpeed
from tactful_eval.memory_speed import MemorySpeed, memory_speed
from tactful_eval.report import as_json, table
from tactful_eval.turn_speed import TurnSpeed
from tactfuld.inference.fake_embedder import HashEmbedder

THREE = {"target", "neutral", "auc"}


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    program.main(arguments)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.fixture
def small_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two profiles and one cap; the whole table takes minutes."""
    few: dict[int, tuple[Profile, ...]] = {1: profiles(1)[:2], 3: profiles(3)[:1]}
    for module in (program, comparison):
        monkeypatch.setattr(module, "profiles", lambda slots_each: few[slots_each])
    monkeypatch.setattr(comparison, "CAPS", (2,))


def test_contract_prints_the_reference_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "contract", "--json")
    auc = found.pop("score_channel_auc")
    assert found == {
        "online": 2.0,
        "incomplete_charge": 4.0,
        "capped_argmax": "inf",
        "no_cap": 5.333333,
    }
    assert 0.5 < auc <= 1.0


def test_contract_takes_another_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    scenario = ("--cap", "3", "--charges-per-cap", "5", "--target-turns", "7")
    found = printed(capsys, "contract", "--json", *scenario)
    assert (found["online"], found["incomplete_charge"], found["no_cap"]) == (3.0, 4.2, 4.2)


@pytest.mark.usefixtures("small_table")
def test_allocation_prints_summary_points_and_rows(capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "allocation", "--json", "--processes", "1")
    assert set(found["summary"]) == {"ours", "online", "preallocated"}
    assert all(set(three) == THREE for three in found["summary"].values())
    for name in ("equal_auc", "equal_neutral"):
        assert set(found[name]["ours"]) == set(found[name]["preallocated"]) == THREE
    drawn = [(row["mechanism"], row["rule"], row["candidates"]) for row in found["rows"]]
    for mechanism in Mechanism:
        for rule, candidates in (("online", None), ("preallocated", None), ("standing", 2)):
            assert drawn.count((mechanism.value, rule, candidates)) == len(comparison.SLOTS)


@pytest.mark.usefixtures("small_table")
def test_allocation_prints_a_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    program.main(["allocation", "--processes", "1"])
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split()[:3] == ["rule", "mechanism", "candidates"]
    assert any(line.startswith("standing ") for line in lines)


@pytest.fixture
def soup(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that answers everything with soup."""

    class Cook:
        def answer(self, _writer: object, _prompt: object, _seed: int) -> str:
            return "A lentil soup."

    monkeypatch.setattr(program, "KeptAnswers", lambda _path: Cook())
    monkeypatch.setattr(program, "open_writer", lambda _path, _threads: nullcontext())


@pytest.mark.usefixtures("soup")
def test_answers_prints_rates_with_intervals(capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "answers", "--json", "--limit", "2")
    rows = {row["view"]: row for row in found["rows"]}
    assert rows["blood_sugar"]["shown"] == rows["blood_sugar"]["generic"]
    assert rows["blood_sugar"]["shown"]["hits"] == rows["blood_sugar"]["shown"]["of"] == 2
    assert rows["quick_meal"]["shown"]["hits"] == 0
    assert found["shown"]["of"] == 2 * len(rows)
    assert found["breaches"] == 0
    assert set(found["faults"]) == {"empty", "role", "parrot", "echo", "loop", "unfinished"}


@pytest.mark.usefixtures("soup")
def test_answers_prints_a_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    program.main(["answers", "--tuning", "--limit", "1"])
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["slot", "view", "shown", "generic", "breaches"]
    assert any(line.startswith("all ") for line in lines)


def test_bench_selection_times_every_mechanism(capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "bench", "selection", "--json")
    assert set(found["microseconds"]) == {mechanism.value for mechanism in Mechanism}
    assert all(time > 0 for time in found["microseconds"].values())


def test_bench_ledger_measures_a_ratio(tmp_path: Path) -> None:
    speed = ledger_speed.ledger_speed(tmp_path, rounds=2, each=3)
    assert speed.charge_over_bare == pytest.approx(speed.charges / speed.commits)
    assert speed.alone_over_bare > 0
    assert not list(tmp_path.iterdir())


def test_bench_memory_measures_stores_of_every_size(tmp_path: Path) -> None:
    speed = memory_speed(tmp_path, sizes=(80, 160), rounds=1, turns=2, embedder=HashEmbedder())
    small, large = speed.stores
    assert (small.positions, large.positions) == (80, 160)
    assert speed.turn_ratio == pytest.approx(large.turn / small.turn)
    for name, exponent in speed.exponents.items():
        grown = getattr(large, name) / getattr(small, name)
        assert 2**exponent == pytest.approx(grown)
    assert not list(tmp_path.iterdir())


def test_bench_prints_all(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    speed = LedgerSpeed(0.75, 0.5, charges=750.0, commits=1000.0)
    monkeypatch.setattr(program, "ledger_speed", lambda _folder: speed)
    sizes = MemorySpeed(stores=(), exponents={"write": 1.0}, turn_ratio=1.5)
    monkeypatch.setattr(program, "memory_speed", lambda _folder: sizes)
    apps = AppSpeed("bubblewrap", (), worst=1.2)
    monkeypatch.setattr(program, "app_speed", lambda _folder: apps)
    engine = EngineSpeed(0.9, 0.95, {}, 2.0, 1.0, {}, {})
    monkeypatch.setattr(program, "engine_speed", lambda _model, threads: engine)
    turn = TurnSpeed(2.5, 9.0, 1.5, 4.0, 1.0, 2.0, 5.0, turns=200, overruns=0)
    monkeypatch.setattr(program, "turn_speed", lambda _folder: turn)
    fusion = FusionSpeed(3, {"1": 1.2}, {"1": 1.05}, {}, {"1": 0.04}, 0.3, {})
    monkeypatch.setattr(program, "fusion_speed", lambda _model, threads: fusion)
    found = printed(capsys, "bench", "--json")
    assert found["engine"]["streams8_over_bare"] == 0.9
    assert found["engine"]["turn"]["p50"] == 2.5
    assert found["fusion"]["over_bare_batch"] == {"1": 1.05}
    assert "peer" not in found
    assert found["apps"] == {"sandbox": "bubblewrap", "cases": [], "worst": 1.2}
    assert printed(capsys, "bench", "apps", "--json") == found["apps"]
    assert found["ledger"]["charge_over_bare"] == 0.75
    assert set(found["selection"]) == {"microseconds"}
    assert found["memory"] == {"stores": [], "exponents": {"write": 1.0}, "turn_ratio": 1.5}
    assert printed(capsys, "bench", "memory", "--json") == found["memory"]


def test_an_infinite_number_is_a_word_in_json() -> None:
    assert as_json({"a": float("inf"), "b": [1 / 3, 2], "c": None}) == (
        '{"a": "inf", "b": [0.333333, 2], "c": null}'
    )


def test_columns_line_up() -> None:
    lines = table(("a", "long"), [("x", 0.5), ("longer", None)]).splitlines()
    assert lines == ["a       long", "x       0.500", "longer  -"]
