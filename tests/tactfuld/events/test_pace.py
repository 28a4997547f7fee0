"""How often an app may do something."""

from tests.fakes.manual_clock import ManualClock

from tactful_core.values import AppId
from tactfuld.events.pace import Allowance, Pace

MEALS, MONEY = AppId("meals"), AppId("money")


def test_allows_a_burst_then_one_each_period() -> None:
    clock = ManualClock()
    pace = Pace(Allowance(burst=3, seconds=10.0), clock)
    assert [pace.allows(MEALS) for _ in range(5)] == [True, True, True, False, False]
    clock.advance(9.0)
    assert not pace.allows(MEALS)
    clock.advance(1.0)
    assert [pace.allows(MEALS), pace.allows(MEALS)] == [True, False]
    clock.advance(1000.0)
    assert [pace.allows(MEALS) for _ in range(4)] == [True, True, True, False]


def test_an_app_takes_nothing_from_another() -> None:
    pace = Pace(Allowance(burst=1, seconds=10.0), ManualClock())
    assert pace.allows(MEALS)
    assert not pace.allows(MEALS)
    assert pace.allows(MONEY)
