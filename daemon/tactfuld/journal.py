"""The log: JSON lines of what happened, without what it was about.

Decides the form of log lines. What is *not* here: the owner's notices, the audit trail.

Invariants:

- an event is a fixed word with ids, names of apps and slots, counts and error codes; a value that
  is not a short plain one is replaced, so a text that strays into a call does not reach the file;
- exceptions are logged by the names of their types and where they were raised, never by message.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, TextIO

import structlog
from structlog.typing import FilteringBoundLogger, WrappedLogger

_PLAIN = re.compile(r"[A-Za-z0-9_.:+\-]{0,64}")
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class LogLevel:
    """The least important level that is logged: debug, info, warning or error."""

    def __init__(self, word: str = "info") -> None:
        self._least = _LEVELS[word]

    def set(self, word: str) -> None:
        """Also for loggers that are open already."""
        self._least = _LEVELS[word]

    def __call__(
        self, _logger: WrappedLogger, method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """A step of a logger: ends what is not important enough."""
        if _LEVELS[method] < self._least:
            raise structlog.DropEvent
        return event


def open_journal(stream: TextIO, level: LogLevel | None = None) -> FilteringBoundLogger:
    """A logger that writes to `stream`."""
    journal: FilteringBoundLogger = structlog.wrap_logger(
        structlog.WriteLogger(stream),
        processors=[
            level or LogLevel(),
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _plain_values,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS["debug"]),
    )
    return journal


def failure(problem: BaseException) -> str:
    """A failure as `Type:file.py:12`, the innermost frame; never its message."""
    frames = traceback.extract_tb(problem.__traceback__)
    where = f":{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(problem).__name__}{where}"


def _plain_values(
    _logger: WrappedLogger, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    return {key: _plain(value) for key, value in event.items()}


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    return "(not logged)"
