"""Two epochs with the real daemon, what they add up to, and a ledger that was lost and comes home.

One story, played once; the tests look at it.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.end_to_end.processes import (
    MINUTES,
    PASSPHRASE,
    allow_apps,
    installed,
    processes_naming,
    short_folder,
)
from tests.tactful.cli.command_line import Tactful

CAP = 2.0
CHARGE = pytest.approx(CAP / 3)
TWICE = pytest.approx(2 * CAP / 3)
LEDGER = "ledger.db"

pytestmark = pytest.mark.timeout(20 * MINUTES)


@dataclass(frozen=True)
class Story:
    """What was said on the way.

    Attributes:
        before, after: `epoch show` before and after the second epoch was opened.
        typed: what stood on the terminal on which it was opened.
        kept, lost: `ledger` before an old copy was put back, and after.
        older, newer: what restoring from an older and from a newer copy said.
    """

    before: dict[str, Any]
    typed: str
    after: dict[str, Any]
    history: dict[str, Any]
    food: dict[str, Any]
    all: dict[str, Any]
    odds: dict[str, Any]
    replays: list[dict[str, Any]]
    older: dict[str, Any]
    newer: dict[str, Any]
    kept: dict[str, Any]
    lost: dict[str, Any]
    left_running: list[str]


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    with short_folder() as folder, installed(folder) as tactful:
        yield play(tactful, folder)


def play(tactful: Tactful, folder: Path) -> Story:
    tactful.environment["TACTFUL_PASSPHRASE"] = PASSPHRASE
    data, old, new = folder / "p" / "data", folder / "old", folder / "new"
    allow_apps(folder, tactful.json("init", "--yes", "--starter", "demo"))
    tactful.json("start")
    tactful.json("tell", "meals", "What is an affordable dinner for tonight?")
    before = tactful.json("epoch", "show")
    shutil.copytree(data, old)
    with tactful.terminal("epoch", "new") as terminal:
        terminal.expect("Type new epoch to open it:")
        terminal.type("new epoch")
        assert terminal.end() == 0, terminal.text
        typed = " ".join(terminal.text.split())
    tactful.json("tell", "meals", "Which daily habits would be good for my health?")
    after, history = tactful.json("epoch", "show"), tactful.json("epoch", "history")
    food = tactful.json("audit", "distance", "food.diet", "food.groceries")
    everything = tactful.json("audit", "distance", "1-5")
    odds, kept = tactful.json("audit", "odds"), tactful.json("ledger")
    replays = [tactful.json("audit", "replay")]
    tactful.json("stop")
    older = tactful.json("ledger", "restore", str(old / LEDGER))
    shutil.copytree(data, new)
    for path in old.glob(f"{LEDGER}*"):
        shutil.copy(path, data)
    newer = tactful.json("ledger", "restore", str(new / LEDGER))
    tactful.json("start")
    lost = tactful.json("ledger")
    replays.append(tactful.json("audit", "replay"))
    tactful.json("stop")
    left = processes_naming(folder)
    return Story(
        before,
        typed,
        after,
        history,
        food,
        everything,
        odds,
        replays,
        older,
        newer,
        kept,
        lost,
        left,
    )


def column(found: dict[str, Any], name: str) -> dict[str, Any]:
    return {line["attribute"]: line[name] for line in found["lines"]}


def test_a_new_epoch_adds_its_cap_to_what_was_spent(story: Story) -> None:
    assert (story.before["epoch"], story.after["epoch"]) == (1, 2)
    assert column(story.before, "spent") == {"diabetes": CHARGE, "debt": CHARGE}
    assert column(story.before, "lifetime_now") == {"diabetes": CAP, "debt": CAP}
    both = {"diabetes": pytest.approx(CAP * 4 / 3), "debt": pytest.approx(CAP * 4 / 3)}
    assert column(story.before, "lifetime_after") == both
    assert column(story.after, "lifetime_now") == both
    assert column(story.after, "spent") == {"diabetes": CHARGE, "debt": 0.0}


def test_the_owner_read_what_it_means_before_it_was_typed(story: Story) -> None:
    shown, _, opened = story.typed.partition("Type new epoch to open it:")
    assert "closes epoch 1 and opens epoch 2" in shown
    assert "after ε 2.667, at most ×14.4: from 10 % to at most 62 %" in shown
    assert "it is outside the promise" in shown
    assert "Epoch 2 is open." in opened


def test_history_has_both_epochs(story: Story) -> None:
    assert [sums["epoch"] for sums in story.history["epochs"]] == [1, 2]
    first, second = (sums["spent"] for sums in story.history["epochs"])
    assert first == {"diabetes": CHARGE, "debt": CHARGE}
    assert second == {"diabetes": CHARGE, "debt": 0.0}
    assert story.history["lifetime"] == {"diabetes": TWICE, "debt": CHARGE}


def test_distances_are_those_of_the_paper(story: Story) -> None:
    """Positions 2 and 3 are covered by diabetes alone; all five need both attributes."""
    assert story.food["positions"] == [2, 3]
    assert (story.food["beforehand"], story.food["cover"]) == (CAP, ["diabetes"])
    assert story.food["afterwards"] == 0.0
    assert (story.all["beforehand"], sorted(story.all["cover"])) == (2 * CAP, ["debt", "diabetes"])
    assert story.all["afterwards"] == CHARGE


def test_odds_are_those_of_the_sums(story: Story) -> None:
    diabetes, debt = story.odds["lines"]
    assert (diabetes["seen"]["epsilon"], debt["seen"]["epsilon"]) == (CHARGE, 0.0)
    assert (diabetes["promised"]["epsilon"], diabetes["promised"]["most_percent"]) == (CAP, 46.0)
    assert diabetes["lifetime"]["epsilon"] == TWICE


def test_entries_add_up_also_after_restoring(story: Story) -> None:
    assert [replay["matches"] for replay in story.replays] == [True, True]
    assert story.replays[0] == story.replays[1]


def test_an_older_copy_adds_nothing(story: Story) -> None:
    assert story.older["appended"] == 0
    assert column(story.older, "lifetime") == {"diabetes": TWICE, "debt": CHARGE}


def test_what_was_lost_comes_home_and_counts_once(story: Story) -> None:
    assert story.newer["appended"] >= 2
    assert not story.newer["exhausted"]
    assert story.lost == story.kept
    assert story.left_running == []
