"""What tests have found, for the summary of a run: one line each, in a property of the report.

A test calls `record_property(FINDING, line)`; the `conftest.py` of its folder prints the lines.
"""

from collections.abc import Iterable

import pytest

FINDING = "finding"


def write_findings(terminal: pytest.TerminalReporter, title: str, folder: str) -> None:
    """Prints the findings of all tests below `folder` that passed; nothing where there are none."""
    found = sorted(_findings(terminal.stats.get("passed", ()), folder))
    if found:
        terminal.section(title)
        for line in found:
            terminal.write_line(line)


def _findings(reports: Iterable[object], folder: str) -> Iterable[str]:
    for report in reports:
        if isinstance(report, pytest.TestReport) and report.nodeid.startswith(folder):
            yield from (str(value) for name, value in report.user_properties if name == FINDING)
