"""Sockets are private, a live one is never taken over, and connections are counted."""

import asyncio
import multiprocessing
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import pytest
from tests.fakes.kept_log import KeptLog
from tests.fakes.raw_connection import RawConnection, raw_side

from tactful.errors import AlreadyRunning, NoPermission, Unusable
from tactful.peer import Limits
from tactfuld.server.sockets import (
    LONGEST_PATH,
    Serve,
    bind_unix,
    peer_uid,
    release_unix,
    serve_socket,
)

_DAEMON = """
import sys
from pathlib import Path
from tactfuld.server.sockets import bind_unix
listener = bind_unix(Path(sys.argv[1]))
print("listening", flush=True)
sys.stdin.read()
"""


@contextmanager
def _other_daemon(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that listens on the path until it is killed."""
    with subprocess.Popen(
        [sys.executable, "-c", _DAEMON, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "listening\n"
        try:
            yield process
        finally:
            process.kill()


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- where a socket may be ----------------------------------------------------------------------


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_folder_and_socket_are_the_owners_alone(profile_dir: Path, umask: int) -> None:
    path = profile_dir / "deeper" / "run" / "owner.sock"
    before = os.umask(umask)
    try:
        with bind_unix(path):
            assert _mode(path.parent) == 0o700
            assert _mode(path) == 0o600
    finally:
        os.umask(before)


@pytest.mark.parametrize("mode", [0o750, 0o701, 0o770, 0o777])
def test_refuses_a_folder_that_others_can_enter(profile_dir: Path, mode: int) -> None:
    folder = profile_dir / "run"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(NoPermission, match="chmod 700"):
        bind_unix(folder / "owner.sock")
    assert list(folder.iterdir()) == []


def test_refuses_a_folder_that_is_a_link(profile_dir: Path) -> None:
    (profile_dir / "elsewhere").mkdir(mode=0o700)
    (profile_dir / "run").symlink_to(profile_dir / "elsewhere")
    with pytest.raises(Unusable, match="link"):
        bind_unix(profile_dir / "run" / "owner.sock")


def test_refuses_a_folder_of_another_user(
    profile_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = profile_dir / "run"
    folder.mkdir(mode=0o700)
    stranger = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: stranger)
    with pytest.raises(NoPermission, match="another user"):
        bind_unix(folder / "owner.sock")


def test_path_as_long_as_the_system_allows_works_and_one_more_is_a_sentence(
    profile_dir: Path,
) -> None:
    folder = profile_dir / "run"
    longest = folder / ("s" * (LONGEST_PATH - len(os.fsencode(folder)) - 1))
    with bind_unix(longest):
        assert longest.is_socket()
    with pytest.raises(Unusable, match="shorter path"):
        bind_unix(longest.with_name(longest.name + "s"))


# --- live and stale -----------------------------------------------------------------------------


def test_live_socket_of_another_process_is_never_removed(profile_dir: Path) -> None:
    path = profile_dir / "run" / "owner.sock"
    with _other_daemon(path):
        inode = path.stat().st_ino
        with pytest.raises(AlreadyRunning, match="tactful stop"):
            bind_unix(path)
        assert path.stat().st_ino == inode
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.connect(os.fspath(path))


def test_socket_of_a_killed_process_is_replaced(profile_dir: Path) -> None:
    path = profile_dir / "run" / "owner.sock"
    with _other_daemon(path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert path.is_socket()
        with bind_unix(path), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.connect(os.fspath(path))


def test_live_socket_whose_queue_is_full_is_live(profile_dir: Path) -> None:
    path = profile_dir / "run" / "owner.sock"
    path.parent.mkdir(mode=0o700)
    clients: list[socket.socket] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as busy:
        busy.bind(os.fspath(path))
        busy.listen(0)
        try:
            _fill(path, clients)
            with pytest.raises(AlreadyRunning):
                bind_unix(path)
        finally:
            for client in clients:
                client.close()
    assert path.exists()


def _fill(path: Path, clients: list[socket.socket]) -> None:
    for _ in range(100):
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        clients.append(client)
        client.setblocking(False)
        try:
            client.connect(os.fspath(path))
        except BlockingIOError:
            return
    raise AssertionError("The queue never filled up.")


@pytest.mark.parametrize("kind", ["file", "folder", "link to a file", "dangling link"])
def test_what_is_not_a_socket_is_never_removed(profile_dir: Path, kind: str) -> None:
    path = profile_dir / "run" / "owner.sock"
    path.parent.mkdir(mode=0o700)
    kept = profile_dir / "kept"
    match kind:
        case "file":
            path.write_text("precious")
        case "folder":
            path.mkdir()
        case "link to a file":
            kept.write_text("precious")
            path.symlink_to(kept)
        case _:
            path.symlink_to(kept)
    before = path.lstat()
    with pytest.raises(Unusable, match="not touched"):
        bind_unix(path)
    assert path.lstat() == before


def test_released_socket_is_gone_and_can_be_made_again(profile_dir: Path) -> None:
    path = profile_dir / "run" / "owner.sock"
    for _ in range(2):
        release_unix(bind_unix(path), path)
        assert not path.exists()
    listener = bind_unix(path)
    path.unlink()
    release_unix(listener, path)


# --- who connects -------------------------------------------------------------------------------


def test_peer_uid_is_the_user_of_the_other_end() -> None:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with one, other:
        assert peer_uid(one) == os.geteuid()


def _connect_as(uid: int, path: str, said: "multiprocessing.Queue[str]") -> None:
    os.setuid(uid)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.connect(path)
        said.put("connected")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_peer_uid_of_another_user_is_theirs() -> None:
    nobody = 65534
    context = multiprocessing.get_context("spawn")
    said: multiprocessing.Queue[str] = context.Queue()
    path = Path("/tmp") / f"tf-open-{os.getpid()}.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        try:
            listener.bind(os.fspath(path))
            path.chmod(0o666)
            listener.listen()
            process = context.Process(target=_connect_as, args=(nobody, os.fspath(path), said))
            process.start()
            with listener.accept()[0] as accepted:
                assert peer_uid(accepted) == nobody
            process.join()
        finally:
            path.unlink(missing_ok=True)


# --- serving ------------------------------------------------------------------------------------


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        writer.write(line)
        await writer.drain()


@asynccontextmanager
async def _serving(
    path: Path, serve: Serve, *, most: int = 4, uid: int | None = None
) -> AsyncIterator[KeptLog]:
    kept = KeptLog()
    listener = await asyncio.to_thread(bind_unix, path)
    try:
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(
                serve_socket(listener, serve, limits=Limits(), most=most, log=kept.log, uid=uid),
                name="serving",
            )
            try:
                yield kept
            finally:
                serving.cancel()
    finally:
        await asyncio.to_thread(release_unix, listener, path)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@asynccontextmanager
async def _client(path: Path) -> AsyncIterator[RawConnection]:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # Elsewhere: where the queue is full this waits for a service that runs on this loop.
    await asyncio.to_thread(sock.connect, os.fspath(path))
    async with raw_side(sock) as raw:
        yield raw


async def _find_room(path: Path) -> None:
    """Connect again and again until somebody is served."""
    while True:
        async with _client(path) as raw:
            with suppress(ConnectionError):
                if await _echoes(raw):
                    return


async def _echoes(raw: RawConnection) -> bool:
    await raw.say_bytes(b'{"hello":1}\n')
    return await raw.hear() == {"hello": 1}


@pytest.fixture
def path(profile_dir: Path) -> Path:
    return profile_dir / "run" / "app.sock"


async def test_connections_are_served_side_by_side(path: Path) -> None:
    async with _serving(path, _echo), _client(path) as one, _client(path) as two:
        assert await _echoes(two)
        assert await _echoes(one)


async def test_process_of_another_user_is_refused_before_it_is_read(path: Path) -> None:
    served: list[str] = []

    async def serve(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        served.append("served")

    async with _serving(path, serve, uid=os.geteuid() + 1) as kept, _client(path) as raw:
        assert await raw.hear_error() == (None, "no_permission")
        assert await raw.hear_end() == b""
        assert served == []
        assert kept.records == [
            {"event": "connection_refused", "code": "no_permission", "level": "warning"}
        ]


async def test_connection_over_the_limit_is_told_so_and_the_next_finds_room(path: Path) -> None:
    async with _serving(path, _echo, most=2) as kept:
        async with _client(path) as one, _client(path) as two:
            assert await _echoes(one)
            assert await _echoes(two)
            async with _client(path) as three:
                assert await three.hear_error() == (None, "busy")
                assert await three.hear_end() == b""
            assert await _echoes(one)
        await _find_room(path)
        assert "connection_refused" in kept.events


async def test_others_work_between_connections_that_wait_already(path: Path) -> None:
    async with _serving(path, _echo, most=0) as kept:
        with ExitStack() as clients:
            for _ in range(8):
                client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                clients.enter_context(client).connect(os.fspath(path))
            refused = [0]
            while refused[-1] < 8:
                await asyncio.sleep(0)
                refused.append(len(kept.records))
    assert max(after - before for before, after in pairwise(refused)) == 1


async def test_thousand_quick_connections_leave_the_socket_sound(path: Path) -> None:
    async with _serving(path, _echo, most=32):
        for number in range(1000):
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            while True:
                try:
                    sock.setblocking(False)
                    sock.connect(os.fspath(path))
                except BlockingIOError:
                    await asyncio.sleep(0)
                else:
                    break
            if number % 3 == 0:
                sock.send(b"half a line")
            sock.close()
        await _find_room(path)


async def test_defect_in_one_connection_ends_that_one_only(path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.readline() == b"explode\n":
            raise ValueError("zebra")
        await _echo(reader, writer)

    async with _serving(path, serve) as kept, _client(path) as good, _client(path) as bad:
        await good.say_bytes(b"begin\n")
        await bad.say_bytes(b"explode\n")
        assert await bad.hear_end() == b""
        assert await _echoes(good)
        assert kept.records == [
            {"event": "connection_failed", "error": "ValueError", "level": "error"}
        ]


async def test_failing_accept_does_not_end_the_service(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    accept, failures = loop.sock_accept, [OSError(24, "Too many open files")]

    async def sometimes(sock: socket.socket) -> object:
        if failures:
            raise failures.pop()
        return await accept(sock)

    monkeypatch.setattr(loop, "sock_accept", sometimes)
    async with _serving(path, _echo) as kept, _client(path) as raw:
        assert await _echoes(raw)
        assert kept.records == [{"event": "accept_failed", "errno": "EMFILE", "level": "warning"}]


async def test_ending_the_service_ends_every_connection(path: Path) -> None:
    ended: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _echo(reader, writer)
        finally:
            ended.append("ended")

    async with _client_after(path, serve) as raw:
        assert await raw.hear_end() == b""
    assert ended == ["ended"]


@asynccontextmanager
async def _client_after(path: Path, serve: Serve) -> AsyncIterator[RawConnection]:
    """A connection that was served by a service that has ended since."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    async with _serving(path, serve):
        sock.connect(os.fspath(path))
        sock.send(b"x\n")
        sock.setblocking(False)
        assert await asyncio.get_running_loop().sock_recv(sock, 10) == b"x\n"
    async with raw_side(sock) as raw:
        yield raw
