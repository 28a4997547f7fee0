"""The benchmark of turns measures whole answers of a real gate, and takes their stage off."""

from pathlib import Path

from tactful_eval.turn_speed import STAGE_SECONDS, turn_speed


def test_measures_what_is_beyond_the_stage(tmp_path: Path) -> None:
    found = turn_speed(tmp_path, turns=3)
    assert found.turns == 3
    # An answer cannot come before its stage has ended, nor is the stage counted.
    assert 0 < found.p50 <= found.p99
    assert 0 < found.first_p50 <= found.first_p99
    assert found.first_p50 < found.p50
    assert 0 < found.kept_p50 <= found.kept_p99
    # What was released is kept before the app is told that the answer is whole.
    assert found.kept_p50 < found.p50
    assert found.processor > 0
    assert 0 <= found.overruns <= 3
    assert STAGE_SECONDS > 0
    assert not list(tmp_path.iterdir())
