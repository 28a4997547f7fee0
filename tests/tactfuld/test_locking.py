"""One daemon for each data folder, whatever became of the one before."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tactful.errors import AlreadyRunning, NoPermission, Unusable
from tactfuld.locking import LOCK_FILE, hold

HOLD_UNTIL_KILLED = """
import sys, time
from pathlib import Path
from tactfuld.locking import hold
with hold(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_second_holder_is_refused_with_a_sentence_and_status_75(tmp_path: Path) -> None:
    with hold(tmp_path):
        with (
            pytest.raises(AlreadyRunning, match=r"holds the data folder .*`tactful stop`") as error,
            hold(tmp_path),
        ):
            pass
        assert error.value.exit_status == 75


def test_lock_is_released_at_the_end_of_the_block_and_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError), hold(tmp_path):
        raise KeyError
    with hold(tmp_path):
        pass


def test_lock_file_is_private_and_stays(tmp_path: Path) -> None:
    with hold(tmp_path):
        pass
    assert (tmp_path / LOCK_FILE).stat().st_mode & 0o777 == 0o600


def test_left_over_lock_file_means_nothing(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).write_text("1")
    with hold(tmp_path):
        assert (tmp_path / LOCK_FILE).read_text() == "1"


def test_kernel_releases_the_lock_of_a_killed_holder(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD_UNTIL_KILLED, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(AlreadyRunning), hold(tmp_path):
            pass
        holder.kill()
        holder.wait()
        with hold(tmp_path):
            pass


def test_children_do_not_keep_the_lock(tmp_path: Path) -> None:
    with hold(tmp_path):
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys; print('up', flush=True); sys.stdin.read()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            close_fds=False,
        )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        with hold(tmp_path):
            assert child.poll() is None
        child.kill()


def test_missing_folder_is_unusable_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match="tactful init"), hold(tmp_path / "absent"):
        pass
    assert not (tmp_path / "absent").exists()


def test_lock_is_not_taken_through_a_link_or_on_a_folder(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").touch()
    (tmp_path / LOCK_FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NoPermission), hold(tmp_path):
        pass
    (tmp_path / LOCK_FILE).unlink()
    (tmp_path / LOCK_FILE).mkdir()
    with pytest.raises(NoPermission), hold(tmp_path):
        pass


def test_file_system_without_locks_is_unusable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(Unusable, match="local file system"), hold(tmp_path):
        pass
