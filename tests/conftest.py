"""What every test runs under: a watched event loop, no outside settings, short profile folders.

NOT here: fixtures of one package (they lie beside its tests). Network denial, time limits, random
order and warnings as errors are set in `pyproject.toml`; `test_harness.py` proves they act.
"""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import blockbuster
import pytest
from hypothesis import settings

import tactful
import tactfuld

# No deadline: a time limit per example would be a timed assertion on a shared machine.
# On CI the examples are derived from the test, so that a red run is caused by the change at hand;
# at a desk they are random, so that new ones keep being tried.
settings.register_profile("desk", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")

# Shells start background jobs with SIGINT ignored, and every child of ours would inherit that: the
# programs that tests interrupt would not hear it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def watched_event_loop() -> Iterator[None]:
    """Raise `blockbuster.BlockingError` where our code blocks a running event loop.

    Only calls made by or through `tactful` and `tactfuld` count: a test's own body may read a
    file. Function scope, because pytest-socket puts a new socket class in place for each test.
    """
    with blockbuster.blockbuster_ctx([tactful, tactfuld]):
        yield


@pytest.fixture(autouse=True)
def no_outside_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the developer's own profile and passphrase out of the tests."""
    monkeypatch.delenv("TACTFUL_PROFILE", raising=False)
    monkeypatch.delenv("TACTFUL_PASSPHRASE", raising=False)


@pytest.fixture
def profile_dir() -> Iterator[Path]:
    """An empty folder, mode 0700, for one profile: `--profile` or `TACTFUL_PROFILE`.

    Its path is short, because a unix socket's path has at most 108 bytes (104 on macOS), which
    pytest's own `tmp_path` plus a socket name can exceed.
    """
    folder = Path(tempfile.mkdtemp(prefix="tf-", dir="/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
