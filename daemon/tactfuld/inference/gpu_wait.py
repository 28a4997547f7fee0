"""Asking llama.cpp about GPUs in a process of its own, and waiting for a driver that comes up.

Decides when it is asked again and for how long. Not here: what it is asked (gpu_support), what
follows (offload).

A daemon that starts with the session may be faster than the driver, and llama.cpp looks for devices
once in the life of a process: so it is asked in a child, before this process loads it. A build for
the processor only is known by its files and is never waited for.

Invariants
- Asking ends: at most `ASKINGS` times, `PAUSE` apart.
- Whatever a child does, this process gets an answer or None.
"""

import importlib.util
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tactfuld.inference.errors import EngineClosed, ModelError
from tactfuld.inference.offload import GpuDevice, GpuSupport, GpuUse, missing

ASKINGS: Final = 6
PAUSE: Final = 5.0
PATIENCE: Final = 60

_COMMAND: Final = (sys.executable, "-m", "tactfuld.inference.gpu_support")
_PROCESSOR: Final = ("base", "cpu", "blas", "rpc")

Stopped = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Asked:
    """An answer, or what kept the child from giving one."""

    support: GpuSupport | None
    complaint: str = ""


def ask_llama_cpp(command: tuple[str, ...] = _COMMAND) -> Asked:
    """Ask once; blocks for up to seconds."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return Asked(None, f"it did not answer within {PATIENCE} seconds")
    except OSError as refusal:
        return Asked(None, f"it could not be started: {refusal.strerror}")
    if done.returncode < 0:
        return Asked(None, f"the process that asked it was ended by {_name(-done.returncode)}")
    if done.returncode:
        return Asked(None, f"the process that asked it ended with status {done.returncode}")
    try:
        return Asked(_read(done.stdout))
    except (ValueError, TypeError, KeyError):
        return Asked(None, "what it answered cannot be read")


def built_for_gpu(folder: Path | None = None) -> bool:
    """Whether llama.cpp's libraries have one for a GPU; told from their names, loading none."""
    if folder is None:
        found = importlib.util.find_spec("llama_cpp")
        if found is None or found.origin is None:
            return False
        folder = Path(found.origin).parent / "lib"
    kinds = (path.name.partition("ggml-")[2] for path in folder.glob("*ggml-*"))
    return any(kind and not kind.startswith(_PROCESSOR) for kind in kinds)


def wait_for_gpu(
    use: GpuUse,
    stopped: Stopped = lambda: False,
    *,
    ask: Callable[[], Asked] = ask_llama_cpp,
    built: Callable[[], bool] = built_for_gpu,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return once llama.cpp, built for a GPU, finds one; or has been asked often enough.

    Raises `ModelError` if none is found and `use` is `required`, and `EngineClosed` when `stopped`
    says so. With `auto` the model then works on the processor.
    """
    if use == "off" or not built():
        return
    answer = Asked(None)
    for asking in range(ASKINGS):
        if asking:
            sleep(PAUSE)
        if stopped():
            raise EngineClosed
        answer = ask()
        if answer.support is not None and answer.support.supported:
            return
    if use == "required":
        waited = f"It was asked {ASKINGS} times in {(ASKINGS - 1) * PAUSE:g} seconds."
        if answer.support is None:
            raise ModelError(
                "The setting `gpu` is `required`, and llama.cpp could not be asked for a GPU: "
                f"{answer.complaint}. {waited} Install llama-cpp-python anew, built on this "
                "machine, or set `gpu` to `auto`."
            )
        raise ModelError(f"{missing(answer.support)} {waited}")


def _read(answer: bytes) -> GpuSupport:
    told = json.loads(answer)
    devices = tuple(GpuDevice(**each) for each in told["devices"])
    return GpuSupport(bool(told["supported"]), tuple(told["backends"]), devices)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
