"""The lines above the panels say how the daemon is, in words."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from tests.tui.samples import HOSTILE, figures, ledger, line, status

from tactful.errors import DaemonDown, Unusable
from tactful.owner_wire import GpuStatus, Status
from tactful_tui.heading import heading, messages
from tactful_tui.watch import Figures, Watch, answered, lost, refused

LIVE = answered(status(notices=("A copy is due.",)), figures(line()))
DOWN = lost(LIVE, DaemonDown("No daemon is running. Start it with `tactful start`."))
WATCHES = (Watch(), LIVE, DOWN, refused(LIVE, status(), Unusable("Memory is locked.")))


def test_a_running_daemon_is_told_with_model_epoch_and_profile() -> None:
    above, below = heading(LIVE, "~/p", 80).plain.split("\n")
    assert above.startswith(" tactful  ● running ")
    assert above.endswith(" epoch 1, renewed by hand ")
    assert below.startswith(" model SmolLM2-135M-Instruct, ready · sandbox required ")
    assert below.endswith(" profile ~/p ")


@pytest.mark.parametrize(
    ("watch", "words"),
    [
        (Watch(), "○ connecting"),
        (DOWN, "○ not running"),
        (lost(LIVE, Unusable("The secret is damaged.")), "○ not reached"),
        (refused(LIVE, status(), Unusable("Memory is locked.")), "● running, no figures"),
        (refused(LIVE, status(locked=True), Unusable("Memory is locked.")), "● locked"),
        (answered(status(state="loading", progress=0.4), figures()), "● starting"),
        (answered(status(state="failed"), figures()), "● running without a model"),
    ],
)
def test_how_the_daemon_is(watch: Watch, words: str) -> None:
    assert words in heading(watch, "p", 80).plain


def test_a_model_that_loads_says_how_far_it_is() -> None:
    loading = answered(status(state="loading", progress=0.4), figures())
    assert "40% loaded" in heading(loading, "p", 80).plain


@pytest.mark.parametrize(
    ("gpu", "words"),
    [
        (None, "ready · sandbox"),
        (GpuStatus(supported=True, offloaded=False), "ready · sandbox"),
        (GpuStatus(supported=True, offloaded=True), "ready on the GPU · sandbox"),
    ],
)
def test_a_model_on_a_gpu_says_so(gpu: GpuStatus | None, words: str) -> None:
    loaded = status()
    told = loaded.model_copy(update={"model": loaded.model.model_copy(update={"gpu": gpu})})
    assert words in heading(answered(told, figures()), "p", 80).plain


def test_answers_that_leave_the_machine_are_said() -> None:
    loaded = status()
    model = loaded.model.model_copy(update={"answers_from": "models.example"})
    told = loaded.model_copy(update={"model": model})
    assert "apps answered by models.example" in heading(answered(told, figures()), "p", 120).plain


@given(st.sampled_from(WATCHES), st.text(st.characters(codec="utf-8")), st.integers(0, 200))
def test_the_heading_fits_every_terminal(watch: Watch, profile: str, cells: int) -> None:
    lines = heading(watch, profile, cells).plain.split("\n")
    assert len(lines) == 2
    assert all(cell_len(line) <= cells for line in lines)


def test_all_is_well_without_a_message() -> None:
    assert messages(answered(status(), figures(line()))).plain == ""
    assert messages(Watch()).plain == ""


def test_notices_are_shown_and_end_with_the_daemon() -> None:
    assert messages(LIVE).plain == "! A copy is due."
    told = messages(DOWN).plain.split("\n")
    assert told == [
        "! No daemon is running. Start it with `tactful start`.",
        "  The figures below are those of 12:00:00.",
    ]


def test_a_filled_inbox_is_mentioned_and_an_empty_one_is_not() -> None:
    one, two = (status().model_copy(update={"inbox": items}) for items in (1, 2))
    assert "1 thing from an app is in the inbox" in messages(answered(one, figures())).plain
    assert "2 things from apps are in the inbox" in messages(answered(two, figures())).plain
    assert "inbox" not in messages(answered(status(), figures())).plain


def test_a_model_that_failed_says_why() -> None:
    failed = status(state="failed", problem="The file is damaged.")
    assert "! The file is damaged." in messages(answered(failed, figures())).plain


def test_a_damaged_ledger_is_named() -> None:
    damaged = Figures(figures().at, ledger(line(spent=2.0), readable=False), None, ())
    watch = answered(status(), damaged)
    assert "every attribute counts as used up" in messages(watch).plain
    assert "epoch" not in heading(watch, "p", 80).plain


def hostile() -> Status:
    return status(notices=(HOSTILE,), model=HOSTILE, state=HOSTILE, problem=HOSTILE)


def test_what_others_wrote_cannot_steer_the_terminal() -> None:
    watch = refused(answered(hostile(), figures()), hostile(), Unusable(HOSTILE))
    for text in (heading(watch, HOSTILE, 200).plain, messages(watch).plain):
        shown = text.replace("\n", "")
        assert not [c for c in shown if unicodedata.category(c) in {"Cc", "Cf", "Zl", "Zp"}]
