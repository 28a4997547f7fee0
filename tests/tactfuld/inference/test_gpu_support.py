"""What ggml says of devices is read through its own calls."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from typing import Any

import llama_cpp
import pytest

from tactfuld.inference import gpu_support
from tactfuld.inference.gpu_wait import ask_llama_cpp
from tactfuld.inference.offload import GpuDevice, GpuSupport


def test_this_machine_is_told_as_llama_cpp_tells_it() -> None:
    found = gpu_support.gpu_support()
    assert found.supported is bool(llama_cpp.llama_supports_gpu_offload())
    assert bool(found.devices) is found.supported
    assert not {"CPU", "BLAS", "RPC"} & set(found.backends)


def test_a_child_says_the_same() -> None:
    assert ask_llama_cpp().support == gpu_support.gpu_support()


def test_the_child_writes_nothing_but_its_answer() -> None:
    command = [sys.executable, "-m", "tactfuld.inference.gpu_support"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=50)
    assert done.stdout.startswith(b'{"supported": ')


class Ggml:
    """ggml on a machine with a processor, one GPU, one integrated GPU and an accelerator."""

    KINDS = (0, 1, 2, 3)
    NAMES = (b"CPU", b"CUDA0", b"Vulkan0", b"BLAS")
    WORDS = (b"Xeon", b"NVIDIA H200", b"Iris\x1b[0m Xe", b"OpenBLAS")
    BACKENDS = (b"CPU", b"CUDA", b"Vulkan", b"BLAS")

    def __call__(self, name: str, _returns: Any, *_takes: Any) -> Any:
        return getattr(self, name.removeprefix("ggml_backend_"))

    def reg_count(self) -> int:
        return len(self.BACKENDS)

    def reg_get(self, index: int) -> int:
        return index

    def reg_name(self, handle: int) -> bytes:
        return self.BACKENDS[handle]

    def dev_count(self) -> int:
        return len(self.NAMES)

    def dev_get(self, index: int) -> int:
        return index

    def dev_type(self, handle: int) -> int:
        return self.KINDS[handle]

    def dev_name(self, handle: int) -> bytes:
        return self.NAMES[handle]

    def dev_description(self, handle: int) -> bytes:
        return self.WORDS[handle]

    def dev_memory(self, _handle: int, free: Any, total: Any) -> None:
        ctypes.cast(free, ctypes.POINTER(ctypes.c_size_t))[0] = 1
        ctypes.cast(total, ctypes.POINTER(ctypes.c_size_t))[0] = 9


def test_only_gpus_are_devices_and_their_words_are_made_safe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpu_support, "ggml_function", Ggml())
    monkeypatch.setattr(llama_cpp, "llama_supports_gpu_offload", lambda: True)
    assert gpu_support.gpu_support() == GpuSupport(
        supported=True,
        backends=("CUDA", "Vulkan"),
        devices=(
            GpuDevice("CUDA0", "NVIDIA H200", 9),
            GpuDevice("Vulkan0", "Iris[0m Xe", 9),
        ),
    )


def test_free_memory_is_that_of_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_support, "ggml_function", Ggml())
    assert gpu_support.free_memory() == 2


def test_without_ggmls_calls_llama_cpps_word_remains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_support, "_libraries", tuple)
    monkeypatch.setattr(llama_cpp, "llama_supports_gpu_offload", lambda: True)
    assert gpu_support.gpu_support() == GpuSupport(supported=True)
