"""What ggml says before it ends the process is there at the next start, once."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tactfuld.inference.abort_note import take_last_words

PROGRAM = """
import ctypes, resource, sys
from pathlib import Path
from tactfuld.inference.abort_note import keep_last_words
from tactfuld.inference.gpu_support import ggml_function

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
if sys.argv[2] == "kept":
    keep_last_words(Path(sys.argv[1]))
abort = ggml_function("ggml_abort", None, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p)
abort(b"ggml-cuda.cu", 97, b"CUDA error: the device is lost")
"""


def aborted(path: Path, how: str) -> int:
    command = [sys.executable, "-c", PROGRAM, str(path), how]
    return subprocess.run(command, capture_output=True, check=False, timeout=50).returncode


def test_ggml_ends_the_process_and_its_words_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "words"
    assert aborted(path, "kept") == -signal.SIGABRT
    assert path.stat().st_mode & 0o777 == 0o600
    words = take_last_words(path)
    assert words is not None
    assert "ggml-cuda.cu:97: CUDA error: the device is lost" in words
    assert take_last_words(path) is None


def test_without_keeping_there_is_nothing_to_tell(tmp_path: Path) -> None:
    """The negative control: ggml writes nothing by itself."""
    assert aborted(tmp_path / "words", "not kept") == -signal.SIGABRT
    assert take_last_words(tmp_path / "words") is None


@pytest.mark.parametrize(
    ("written", "told"),
    [(b"", "it gave no reason"), (b"a\x1b[31m\nb \xff" + b"x" * 1000, "a [31m b \ufffdxxx")],
)
def test_a_note_is_bounded_and_made_safe(tmp_path: Path, written: bytes, told: str) -> None:
    path = tmp_path / "words"
    path.write_bytes(written)
    words = take_last_words(path)
    assert words is not None
    assert told in words
    assert len(words) < 500


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    assert aborted(tmp_path / "absent" / "words", "kept") == -signal.SIGABRT
