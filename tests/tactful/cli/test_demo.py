"""The demo cleans up after itself, says what it did, and tells the paper's story.

Against the stand-in daemon; `tests/end_to_end/test_demo.py` runs the real one.
"""

import json
import os
import signal
from pathlib import Path

import pytest
from tests.tactful.cli.command_line import Tactful

from tactful.cli.demo import report
from tactful.cli.demo_story import MEMORIES, QUESTIONS
from tactful.owner_wire import LedgerLine, LedgerReply, Selection, Turn


@pytest.fixture
def demo(profile_dir: Path) -> Tactful:
    """The command, with a temporary folder of its own."""
    return Tactful(environment={"TMPDIR": str(profile_dir)})


def left_in(demo: Tactful) -> list[Path]:
    return list(Path(demo.environment["TMPDIR"]).iterdir())


def daemons_of(demo: Tactful) -> list[str]:
    """Command lines of processes that work in the test's temporary folder."""
    folder = demo.environment["TMPDIR"]
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue
        if folder in words:
            found.append(words)
    return found


def test_the_demo_prints_the_story_and_leaves_nothing(demo: Tactful) -> None:
    result = demo.run("demo")
    assert (result.status, result.err) == (0, "")
    assert result.out.replace("\n", "").isprintable()
    assert max(len(line) for line in result.out.splitlines()) <= 80
    for _, shelf, text in MEMORIES:
        assert shelf in result.out
        assert text in result.out
    assert "ε 0.667 charged to diabetes and debt" in result.out
    assert "no charge: the budget of this topic is used up" in result.out
    assert "by at most ×7.4: from 10 % to at most 46 %" in " ".join(result.out.split())
    assert result.out.rstrip().endswith("ledger")
    assert left_in(demo) == []
    assert daemons_of(demo) == []


def test_the_demo_in_json_has_the_documented_form(demo: Tactful) -> None:
    data = demo.json("demo")
    assert set(data) == {"turns", "ledgers"}
    assert [turn["turn"] for turn in data["turns"]] == list(range(1, len(QUESTIONS) + 1))
    assert [turn["query"] for turn in data["turns"]] == list(QUESTIONS)
    assert data["turns"][0]["selections"] == [
        {
            "slot": "food",
            "view": "food_view",
            "epsilon": 0.666667,
            "charged": ["diabetes", "debt"],
            "fallback": False,
        }
    ]
    assert data["ledgers"] == {
        "diabetes": {"spent": 2.0, "cap": 2.0},
        "debt": {"spent": 2.0, "cap": 2.0},
    }
    assert left_in(demo) == []


def test_charges_are_listed_in_the_order_of_the_policy() -> None:
    chosen = Selection(
        slot="food", view="v", epsilon=2 / 3, charged=("debt", "diabetes"), fallback=False
    )
    turn = Turn(turn=1, app="meals", query="q", selections=(chosen,), answer="a")
    lines = tuple(
        LedgerLine(
            attribute=name,
            spent=2 / 3,
            cap=2.0,
            promised=2.0,
            lifetime=2 / 3,
            closed=False,
            exposed=False,
        )
        for name in ("diabetes", "debt")
    )
    told = json.loads(json.dumps(report([turn], LedgerReply(epoch=1, readable=True, lines=lines))))
    assert told["turns"][0]["selections"][0]["charged"] == ["diabetes", "debt"]
    assert told["ledgers"]["debt"] == {"spent": 0.666667, "cap": 2.0}


def test_without_a_sandbox_the_demo_turns_it_off_and_says_so(demo: Tactful) -> None:
    result = demo.run("demo", FAKE_TACTFULD='{"sandbox_problem": "Apps do not start: no bwrap."}')
    assert result.status == 0, result
    told = " ".join(result.out.split())
    assert "sandbox off, in this profile only. In your own: Apps do not start: no bwrap." in told


def test_a_kept_demo_can_be_opened_again(demo: Tactful, profile_dir: Path) -> None:
    folder = profile_dir / "kept"
    result = demo.run("demo", "--keep", str(folder))
    assert result.status == 0, result
    assert str(folder) in " ".join(result.out.split())
    assert daemons_of(demo) == []
    passphrase = folder / "passphrase.txt"
    assert passphrase.stat().st_mode & 0o777 == 0o600
    arguments = ("--profile", str(folder))
    demo.json("start", *arguments, "--passphrase-file", str(passphrase))
    demo.json("stop", *arguments)


def test_the_demo_is_not_kept_over_something_else(demo: Tactful, profile_dir: Path) -> None:
    (profile_dir / "kept").mkdir()
    (profile_dir / "kept" / "mine").touch()
    result = demo.run("demo", "--keep", str(profile_dir / "kept"), "--json")
    assert (result.status, result.error["code"]) == (73, "already_exists")


@pytest.mark.parametrize(
    ("wishes", "status"),
    [
        ({"fail": {"model-install": "model_failed"}}, 69),
        ({"fail": {"init": "no_permission"}}, 77),
        ({"mute": "serve"}, 70),
        ({"model": "failed"}, 69),
        ({"die_on": "tell"}, 69),
    ],
    ids=str,
)
def test_whatever_fails_nothing_is_left(
    demo: Tactful, wishes: dict[str, object], status: int
) -> None:
    result = demo.run("demo", FAKE_TACTFULD=json.dumps(wishes))
    assert result.status == status, result
    assert len(result.err.splitlines()) == 1
    assert left_in(demo) == []
    assert daemons_of(demo) == []


@pytest.mark.parametrize(
    ("wishes", "number", "status"),
    [
        ({"hang_on": "tell"}, signal.SIGINT, 130),
        ({"hang_on": "tell"}, signal.SIGTERM, 143),
        ({"hang_on": "tell"}, signal.SIGHUP, 143),
        ({"hang": "serve"}, signal.SIGINT, 130),
        ({"hang": "init"}, signal.SIGTERM, 143),
    ],
    ids=str,
)
def test_whoever_ends_it_nothing_is_left(
    demo: Tactful, wishes: dict[str, str], number: signal.Signals, status: int
) -> None:
    child = demo.popen("demo", FAKE_TACTFULD=json.dumps(wishes))
    with child:
        assert child.stdout is not None
        waiting_for = "meals asks" if "hang_on" in wishes else "profile"
        assert any(waiting_for in line for line in child.stdout)
        _wait_for_daemon(demo, "one-shot init" if wishes.get("hang") == "init" else "serve")
        child.send_signal(number)
        rest, complaints = child.communicate(timeout=demo.patience)
    assert child.returncode == status, (rest, complaints)
    assert "Traceback" not in complaints
    assert left_in(demo) == []
    assert daemons_of(demo) == []


def _wait_for_daemon(demo: Tactful, words: str) -> None:
    while not any(words in line for line in daemons_of(demo)):
        os.sched_yield()


def test_on_a_terminal_progress_is_shown_and_ctrl_c_is_a_short_sentence(demo: Tactful) -> None:
    wishes = json.dumps({"loading": 3, "hang_on": "tell"})
    with demo.terminal("demo", FAKE_TACTFULD=wishes) as terminal:
        terminal.expect("fetching the model")
        terminal.expect("loading toy")
        terminal.expect("meals asks")
        terminal.press("C")
        assert terminal.end() == 130
        assert terminal.text.rstrip().endswith("tactful: Interrupted.")
    assert left_in(demo) == []
    assert daemons_of(demo) == []
