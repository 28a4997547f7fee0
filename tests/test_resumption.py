"""`make test-long` resumes: what passed on this commit is not run again, what failed is."""

import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

SUITE = """
from pathlib import Path

def test_passes(): Path("ran").open("a").write("p")
def test_fails(): Path("ran").open("a").write("f"); assert Path("mended").exists()
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """Two tests under version control."""
    pytester.makepyfile(test_suite=SUITE)
    pytester.makefile(".gitignore", **{"": "*\n!test_suite.py\n"})
    pytester.run("git", "init", "-q")
    commit(pytester, "one")
    return pytester


def commit(pytester: pytest.Pytester, message: str) -> None:
    pytester.run("git", "add", "test_suite.py")
    who = ["-c", "user.name=t", "-c", "user.email=t@t.invalid"]
    made = pytester.run("git", *who, "commit", "-q", "--allow-empty", "-m", message)
    assert made.ret == 0


def run(pytester: pytest.Pytester) -> pytest.RunResult:
    root = Path(__file__).parents[1]
    return pytester.run(
        "env",
        f"PYTHONPATH={root}",
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:randomly",
        "-p",
        "tests.resumption",
        "--resume",
        "passed",
    )


def test_only_what_has_not_passed_runs_again(suite: pytest.Pytester) -> None:
    run(suite).assert_outcomes(passed=1, failed=1)
    run(suite).assert_outcomes(failed=1, deselected=1)
    Path("mended").touch()
    run(suite).assert_outcomes(passed=1, deselected=1)
    assert Path("ran").read_text(encoding="utf-8") == "pfff"


def test_a_finished_run_succeeds_again_without_running_anything(suite: pytest.Pytester) -> None:
    Path("mended").touch()
    run(suite).assert_outcomes(passed=2)
    again = run(suite)
    assert again.ret == pytest.ExitCode.OK
    again.assert_outcomes(deselected=2)


def test_another_commit_starts_anew(suite: pytest.Pytester) -> None:
    Path("mended").touch()
    run(suite).assert_outcomes(passed=2)
    commit(suite, "two")
    run(suite).assert_outcomes(passed=2)
