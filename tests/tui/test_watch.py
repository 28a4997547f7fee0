"""What stays known when the daemon goes away."""

import pytest
from tests.tui.samples import figures, line, status

from tactful.errors import DaemonDown, TactfulError, Unusable
from tactful_tui.watch import Phase, Watch, answered, lost, refused

DOWN = DaemonDown("No daemon is running.")
LIVE = answered(status(), figures(line(spent=1.0)))
STATES = (Watch(), LIVE, refused(LIVE, status(), Unusable("Locked.")), lost(LIVE, DOWN))


def test_nothing_is_known_at_first() -> None:
    assert Watch().phase is Phase.CONNECTING
    assert (Watch().figures, Watch().status, Watch().problem) == (None, None, None)


@pytest.mark.parametrize("watch", STATES, ids=lambda watch: watch.phase)
@pytest.mark.parametrize(
    ("error", "phase"), [(DOWN, Phase.DOWN), (Unusable("The secret is damaged."), Phase.LOST)]
)
def test_what_was_known_stays_known_when_the_daemon_is_lost(
    watch: Watch, error: TactfulError, phase: Phase
) -> None:
    after = lost(watch, error)
    assert (after.figures, after.status) == (watch.figures, watch.status)
    assert (after.phase, after.problem, after.current) == (phase, str(error), False)


@pytest.mark.parametrize("watch", STATES, ids=lambda watch: watch.phase)
def test_a_daemon_that_shows_no_figures_is_not_lost(watch: Watch) -> None:
    now = status(notices=("Locked since noon.",))
    after = refused(watch, now, Unusable("Memory is locked."))
    assert (after.phase, after.status, after.figures) == (Phase.REFUSING, now, watch.figures)
    assert after.problem == "Memory is locked."
    assert not after.current


def test_an_answer_replaces_everything_and_ends_every_problem() -> None:
    assert (LIVE.phase, LIVE.problem, LIVE.current) == (Phase.LIVE, None, True)
