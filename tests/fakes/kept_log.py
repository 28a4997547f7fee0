"""A structlog logger whose records stay in a list, exactly as they were logged."""

import asyncio
from typing import Any, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

_EVERYTHING = 0


class KeptLog:
    """`log` is the logger, `records` is what was logged with it, oldest first."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self._news = asyncio.Event()
        self.log = cast(
            FilteringBoundLogger,
            structlog.wrap_logger(
                structlog.PrintLogger(),
                processors=[self._keep],
                wrapper_class=structlog.make_filtering_bound_logger(_EVERYTHING),
            ),
        )

    @property
    def events(self) -> list[str]:
        """The events alone."""
        return [record["event"] for record in self.records]

    async def wait_for(self, event: str) -> None:
        """Wait until this event has been logged."""
        while event not in self.events:
            self._news.clear()
            await self._news.wait()

    def _keep(self, _logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        self.records.append({**event, "level": method})
        self._news.set()
        raise structlog.DropEvent
