"""The summary of a run says which mutant of the contract was killed by which check."""

import pytest
from tests.contracts.findings import write_findings


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    write_findings(
        terminalreporter, "mutants of C1 to C7 -> the check that kills each", "tests/contracts/"
    )
