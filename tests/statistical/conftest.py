"""The summary of a run says how surely a wrong ε would have been noticed, and what was found."""

import pytest
from tests.contracts.findings import write_findings


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    write_findings(
        terminalreporter,
        "draws against exact probabilities; sigma off if epsilon were wrong by 10 %",
        "tests/statistical/",
    )
