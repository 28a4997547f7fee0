"""A driver that comes up late is waited for, for so long and no longer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tactfuld.inference.gpus import NO_DRIVER, ONE_GPU

from tactfuld.inference import gpu_wait
from tactfuld.inference.errors import EngineClosed, ModelError
from tactfuld.inference.gpu_wait import (
    ASKINGS,
    PAUSE,
    Asked,
    ask_llama_cpp,
    built_for_gpu,
    wait_for_gpu,
)
from tactfuld.inference.offload import GpuUse

NONE_YET = Asked(NO_DRIVER)
DEAD = Asked(None, "it was ended by SIGILL")


class Driver:
    """Answers in turn, the last one for ever; keeps what was slept."""

    def __init__(self, *answers: Asked) -> None:
        self._answers = list(answers)
        self.asked = 0
        self.slept: list[float] = []

    def ask(self) -> Asked:
        self.asked += 1
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def wait(
        self, use: GpuUse, *, built: bool = True, stopped: Callable[[], bool] = lambda: False
    ) -> None:
        wait_for_gpu(use, stopped, ask=self.ask, built=lambda: built, sleep=self.slept.append)


@pytest.mark.parametrize("use", ["auto", "required"])
def test_a_gpu_that_is_there_is_not_waited_for(use: GpuUse) -> None:
    driver = Driver(Asked(ONE_GPU))
    driver.wait(use)
    assert (driver.asked, driver.slept) == (1, [])


@pytest.mark.parametrize("use", ["auto", "required"])
@pytest.mark.parametrize("before", [NONE_YET, DEAD])
def test_a_driver_that_comes_up_is_waited_for(use: GpuUse, before: Asked) -> None:
    driver = Driver(before, before, Asked(ONE_GPU))
    driver.wait(use)
    assert (driver.asked, driver.slept) == (3, [PAUSE, PAUSE])


def test_auto_goes_on_without_one_after_so_many_askings() -> None:
    driver = Driver(NONE_YET)
    driver.wait("auto")
    assert (driver.asked, len(driver.slept)) == (ASKINGS, ASKINGS - 1)


def test_required_is_refused_after_as_many_with_what_was_waited() -> None:
    driver = Driver(NONE_YET)
    with pytest.raises(ModelError, match=r"finds no device.* asked 6 times in 25 seconds"):
        driver.wait("required")
    assert driver.asked == ASKINGS


def test_required_says_why_llama_cpp_could_not_be_asked() -> None:
    with pytest.raises(ModelError, match="SIGILL"):
        Driver(DEAD).wait("required")


@pytest.mark.parametrize("use", ["auto", "required"])
def test_a_build_for_the_processor_is_not_waited_for(use: GpuUse) -> None:
    """Who requires a GPU of it is told by the load, at once."""
    driver = Driver(NONE_YET)
    driver.wait(use, built=False)
    assert driver.asked == 0


def test_nobody_is_asked_where_no_gpu_is_wanted() -> None:
    driver = Driver(NONE_YET)
    driver.wait("off")
    assert driver.asked == 0


def test_a_daemon_that_stops_does_not_wait_on() -> None:
    driver = Driver(NONE_YET)
    with pytest.raises(EngineClosed):
        driver.wait("required", stopped=lambda: driver.asked == 2)
    assert driver.asked == 2


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (("libggml.so", "libggml-base.so", "libggml-cpu.so.0", "libllama.so"), False),
        (("libggml-base.dylib", "libggml-blas.dylib", "libggml-rpc.dylib"), False),
        (("libggml-base.so", "libggml-cpu-haswell.so"), False),
        (("libggml-base.so", "libggml-cuda.so.0"), True),
        (("libggml-base.dylib", "libggml-metal.dylib"), True),
        (("ggml-base.dll", "ggml-vulkan.dll"), True),
        ((), False),
    ],
)
def test_what_llama_cpp_was_built_for_is_told_by_its_files(
    tmp_path: Path, files: tuple[str, ...], expected: bool
) -> None:
    for name in files:
        (tmp_path / name).touch()
    assert built_for_gpu(tmp_path) is expected


def test_this_build_is_looked_at_without_loading_it() -> None:
    import llama_cpp

    from tactfuld.inference.gpu_support import gpu_support

    assert llama_cpp.__file__
    assert built_for_gpu() is bool(gpu_support().backends)


@pytest.mark.parametrize(
    ("program", "complaint"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended by SIGKILL"),
        ("raise SystemExit(3)", "ended with status 3"),
        ("print('{}')", "cannot be read"),
        ("print('llama')", "cannot be read"),
        ("import time; time.sleep(60)", "did not answer"),
    ],
)
def test_a_llama_cpp_that_dies_ends_nobody_else(
    monkeypatch: pytest.MonkeyPatch, program: str, complaint: str
) -> None:
    if "sleep" in program:
        monkeypatch.setattr(gpu_wait, "PATIENCE", 1)
    found = ask_llama_cpp((sys.executable, "-c", program))
    assert (found.support, complaint in found.complaint) == (None, True)


def test_a_python_that_cannot_be_started_is_told() -> None:
    assert "could not be started" in ask_llama_cpp(("/absent",)).complaint
