"""Whether the model works on a GPU.

Decides that from what the owner wants and what this llama.cpp can do. What is *not* here: asking
llama.cpp and telling it (`llama_api`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tactfuld.inference.errors import ModelError

GpuUse = Literal["auto", "required", "off"]
"""`auto`: where llama.cpp can; `required`: or the model does not load; `off`: never."""


@dataclass(frozen=True, slots=True)
class Offload:
    """Where a loaded model works.

    Attributes:
        supported: whether this llama.cpp was built for a GPU and found one.
        offloaded: whether all layers were given to it; else none was.
    """

    supported: bool
    offloaded: bool


def choose_offload(use: GpuUse, *, supported: bool) -> Offload:
    """What to do with all layers of a model.

    Raises:
        ModelError: a GPU is required, and this llama.cpp cannot use one.
    """
    if use == "required" and not supported:
        raise ModelError(
            "The setting `gpu` is `required`, and this llama.cpp cannot use a GPU. Install it anew "
            "from source with CMAKE_ARGS=-DGGML_CUDA=on (NVIDIA), -DGGML_METAL=on (Apple) or "
            "-DGGML_VULKAN=on (others) in the environment: pip install --force-reinstall "
            "--no-cache-dir --no-binary llama-cpp-python llama-cpp-python. "
            "Or set `gpu` to `auto`."
        )
    return Offload(supported, offloaded=supported and use != "off")
