"""`make test-long` can be interrupted: what passed on this commit is not run again.

A pytest plugin: `-p tests.resumption --resume FILE`. The file's first line is the commit, then one
node id a line. NOT here: which tests are long (their marker says so).
"""

import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

PASSED = pytest.StashKey["Passed"]()
CALLED = pytest.StashKey[bool]()


class Passed:
    """The node ids that have passed on one commit, kept in a file."""

    def __init__(self, file: Path, commit: str) -> None:
        self._file = file
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        self.nodes = set(lines[1:]) if lines[:1] == [commit] else set[str]()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join([commit, *sorted(self.nodes)]) + "\n", encoding="utf-8")

    def add(self, node: str) -> None:
        """Keep one more, at once: the next moment may be the interruption."""
        self.nodes.add(node)
        with self._file.open("a", encoding="utf-8") as out:
            out.write(node + "\n")


def current_commit(folder: Path) -> str:
    """The commit and whether the tree differs from it: an edited tree is another commit."""
    described = subprocess.run(
        ["git", "describe", "--always", "--abbrev=40", "--dirty"],  # noqa: S607 - the PATH's git
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return described.stdout.strip()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--resume", type=Path, metavar="FILE", help="skip what passed, by this file")


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--resume")
    if file is not None:
        config.stash[PASSED] = Passed(file, current_commit(config.rootpath))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    passed = config.stash.get(PASSED, None)
    if passed is None:
        return
    done = [item for item in items if item.nodeid in passed.nodes]
    items[:] = [item for item in items if item.nodeid not in passed.nodes]
    config.hook.pytest_deselected(items=done)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    passed = item.config.stash.get(PASSED, None)
    if passed is not None and report.when == "teardown" and item.stash.get(CALLED, False):
        passed.add(item.nodeid)
    if report.when == "call":
        item.stash[CALLED] = report.passed
    return report


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Nothing left to do is success, not "no tests"."""
    passed = session.config.stash.get(PASSED, None)
    if passed is not None and passed.nodes and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK
