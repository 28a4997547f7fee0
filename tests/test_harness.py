"""The safeguards of the test suite itself: each is triggered once, so that none can rot unseen."""

import asyncio
import socket
import sqlite3
import sys
import time
import types
import warnings
from collections.abc import Callable
from pathlib import Path

import blockbuster
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest_socket import SocketBlockedError

import tactfuld


def _as_daemon_code(source: str, **names: object) -> Callable[[], object]:
    """Compile `source`, which defines `act()`, as if it stood in a module of the daemon."""
    module = types.ModuleType("tactfuld.planted")
    vars(module).update(names)
    path = Path(tactfuld.__path__[0]) / "planted.py"
    exec(compile(source, str(path), "exec"), vars(module))  # noqa: S102 - a fixed text of this file
    act: Callable[[], object] = module.act
    return act


async def test_blocking_call_of_the_daemon_on_the_loop_raises() -> None:
    act = _as_daemon_code("def act(): time.sleep(0)", time=time)
    with pytest.raises(blockbuster.BlockingError, match=r"time\.sleep"):
        act()


async def test_sqlite_of_the_daemon_on_the_loop_raises() -> None:
    connection = sqlite3.connect(":memory:")
    act = _as_daemon_code("def act(): connection.execute('select 1')", connection=connection)
    with pytest.raises(blockbuster.BlockingError, match=r"sqlite3"):
        act()
    connection.close()


async def test_blocking_call_in_a_thread_is_allowed() -> None:
    act = _as_daemon_code("def act(): time.sleep(0); return 'ran'", time=time)
    assert await asyncio.to_thread(act) == "ran"


async def test_blocking_call_in_a_test_body_is_allowed() -> None:
    time.sleep(0)


def test_network_sockets_are_denied() -> None:
    with pytest.raises(SocketBlockedError):
        socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    with pytest.raises(SocketBlockedError):
        socket.create_connection(("127.0.0.1", 9), timeout=1)


def test_unix_sockets_are_allowed() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"x")
        assert theirs.recv(1) == b"x"


def test_warnings_are_errors() -> None:
    with pytest.raises(UserWarning, match="planted"):
        warnings.warn("planted", stacklevel=1)


def test_every_test_has_a_time_limit_and_a_random_place(request: pytest.FixtureRequest) -> None:
    assert float(request.config.getini("timeout")) == 180
    assert request.config.pluginmanager.hasplugin("randomly")
    assert request.config.getini("asyncio_mode") == "auto"


def test_unknown_markers_are_refused() -> None:
    with pytest.raises(pytest.fail.Exception, match="not found in `markers`"):
        _ = pytest.mark.no_such_marker


@given(st.integers())
def test_property_tests_have_no_deadline(example: int) -> None:
    assert isinstance(example, int)
    assert settings.default is not None
    assert settings.default.deadline is None


def test_profile_folder_is_private_and_leaves_room_for_a_socket_name(profile_dir: Path) -> None:
    assert profile_dir.stat().st_mode & 0o777 == 0o700
    assert not list(profile_dir.iterdir())
    limit = 104 if sys.platform == "darwin" else 108
    assert len(bytes(profile_dir / "run" / "owner.sock")) < limit - 48
