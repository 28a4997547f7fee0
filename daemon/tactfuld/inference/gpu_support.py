"""What llama.cpp itself says of GPUs: the backends it was built with, and the devices they found.

Decides which calls of ggml are asked. Not here: what follows from the answer (offload), and asking
again (gpu_wait). Beside `llama_api` the only module that imports `llama_cpp`, which loads native
code: import it late, or run it as a process of its own, which prints the answer as JSON. A backend
looks for its devices once in the life of a process, so only a new process sees a driver that came
up later.
"""

import ctypes
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import llama_cpp

from tactfuld.inference.offload import GpuDevice, GpuSupport

# GGML_BACKEND_DEVICE_TYPE_GPU and _IGPU of ggml-backend.h; llama-cpp-python has no names for them.
GPU_KINDS: Final = frozenset({1, 2})
# Backends that compute on the processor, or on another machine's.
NO_GPU: Final = frozenset({"CPU", "BLAS", "RPC"})
DESCRIPTION: Final = 80


def gpu_support() -> GpuSupport:
    """Ask llama.cpp, in this process."""
    supported = bool(llama_cpp.llama_supports_gpu_offload())
    try:
        return GpuSupport(supported, _backends(), _devices())
    except (OSError, AttributeError):
        # A build that hides ggml's calls: then llama.cpp's own yes or no is all there is.
        return GpuSupport(supported)


def free_memory() -> int:
    """Bytes that are free on all GPUs together, as their drivers say."""
    return sum(_memory(handle)[0] for handle in _gpus())


def _backends() -> tuple[str, ...]:
    count, get = (
        ggml_function("ggml_backend_reg_count", ctypes.c_size_t),
        _getter("ggml_backend_reg_get"),
    )
    name = ggml_function("ggml_backend_reg_name", ctypes.c_char_p, ctypes.c_void_p)
    names = (_text(name(get(index))) for index in range(count()))
    return tuple(each for each in names if each not in NO_GPU)


def _devices() -> tuple[GpuDevice, ...]:
    return tuple(_device(handle) for handle in _gpus())


def _gpus() -> tuple[Any, ...]:
    count, get = (
        ggml_function("ggml_backend_dev_count", ctypes.c_size_t),
        _getter("ggml_backend_dev_get"),
    )
    kind = ggml_function("ggml_backend_dev_type", ctypes.c_int, ctypes.c_void_p)
    handles = (get(index) for index in range(count()))
    return tuple(each for each in handles if kind(each) in GPU_KINDS)


def _device(handle: Any) -> GpuDevice:
    name = ggml_function("ggml_backend_dev_name", ctypes.c_char_p, ctypes.c_void_p)
    described = ggml_function("ggml_backend_dev_description", ctypes.c_char_p, ctypes.c_void_p)
    return GpuDevice(_text(name(handle)), _text(described(handle)), _memory(handle)[1])


def _memory(handle: Any) -> tuple[int, int]:
    """Free bytes of a device, and all of them."""
    size = ctypes.POINTER(ctypes.c_size_t)
    memory = ggml_function("ggml_backend_dev_memory", None, ctypes.c_void_p, size, size)
    free, total = ctypes.c_size_t(0), ctypes.c_size_t(0)
    memory(handle, ctypes.byref(free), ctypes.byref(total))
    return int(free.value), int(total.value)


def _getter(name: str) -> Callable[..., Any]:
    return ggml_function(name, ctypes.c_void_p, ctypes.c_size_t)


def ggml_function(name: str, returns: Any, *takes: Any) -> Callable[..., Any]:
    """A function of ggml, from whichever of its libraries has it; else `AttributeError`."""
    for library in _libraries():
        found: Any = getattr(library, name, None)
        if found is not None:
            found.restype, found.argtypes = returns, list(takes)
            return found  # type: ignore[no-any-return]
    raise AttributeError(name)


def _libraries() -> tuple[ctypes.CDLL, ...]:
    """Those that llama.cpp has loaded already; loading them again gives the same ones."""
    folder = Path(str(llama_cpp.__file__)).parent / "lib"
    names = ("ggml", "ggml-base")
    found = [path for name in names for path in folder.glob(f"*{name}.*") if path.suffix in _ENDS]
    return tuple(ctypes.CDLL(str(path)) for path in found)


_ENDS: Final = frozenset({".so", ".dylib", ".dll"})


def _text(raw: Any) -> str:
    told = bytes(raw or b"").decode("utf-8", "replace")[:DESCRIPTION]
    return "".join(c for c in told if c.isprintable()).strip()


def main() -> None:
    """Print what llama.cpp says, as JSON."""
    sys.stdout.write(json.dumps(asdict(gpu_support())))


if __name__ == "__main__":
    main()
