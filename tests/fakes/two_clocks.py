"""A clock whose calendar can be set while its monotonic time goes on."""

from tests.fakes.manual_clock import ManualClock


class TwoClocks(ManualClock):
    """A `ManualClock` with a calendar of its own.

    Attributes:
        calendar: what the calendar shows, in seconds since 1970.
    """

    def __init__(self, calendar: float, time: float = 1000.0) -> None:
        super().__init__(time)
        self.calendar = calendar

    def now(self) -> int:
        return int(self.calendar)

    def advance(self, seconds: float) -> None:
        """Time passes on both."""
        self.calendar += seconds
        super().advance(seconds)

    def set_by(self, seconds: float) -> None:
        """Somebody sets the calendar forward, or back; no time passes."""
        self.calendar += seconds
