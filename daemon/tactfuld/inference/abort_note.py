"""What llama.cpp said when it ended the daemon, kept for the owner until the next start.

Decides that the last words of ggml are written down, and how they are told. Not here: failures that
it reports and goes on after (`errors.DecodeFailed`).

Where a call fails that cannot fail, ggml ends the process. Its backend for CUDA does so for every
error of the driver, so that is how a GPU that is lost in sleep shows there. What it says names the
call, the device and a line of its source, and nothing that it computes with.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

CHARACTERS: Final = 200

_installed: list[Any] = []
"""Kept alive: ggml calls it for as long as the process lives."""


def keep_last_words(path: Path) -> None:
    """Write to `path` what ggml says before it ends this process; loads llama.cpp."""
    # First, because it says how llama.cpp is loaded.
    from tactfuld.inference import llama_api  # noqa: F401 - loaded for what importing it does
    from tactfuld.inference.gpu_support import ggml_function

    def write(message: bytes | None) -> None:
        with suppress(OSError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.write(descriptor, (message or b"")[:CHARACTERS])
            os.close(descriptor)

    callback_type = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
    with suppress(AttributeError, OSError):
        callback = callback_type(write)
        ggml_function("ggml_set_abort_callback", ctypes.c_void_p, callback_type)(callback)
        _installed.append(callback)


def take_last_words(path: Path) -> str | None:
    """What the owner is to know of the end before; the note is gone afterwards. Blocks."""
    try:
        with path.open("rb") as stream:
            said = stream.read(CHARACTERS).decode("utf-8", "replace")
        path.unlink()
    except OSError:
        return None
    words = " ".join("".join(c if c.isprintable() else " " for c in said).split())
    return (
        f"llama.cpp ended the daemon the last time: {words or 'it gave no reason'}. What was "
        "charged stays charged. If that was a GPU, look at its driver; `tactful config set gpu "
        "off` does without it."
    )
