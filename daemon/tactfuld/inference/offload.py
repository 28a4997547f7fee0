"""Whether a model works on a GPU: what the owner wants, what llama.cpp can, and what it did.

Decides: whether layers are given to a GPU, what is read from llama.cpp's own words about a load,
and the sentences where a GPU is required and there is none. Not here: asking llama.cpp
(gpu_support), waiting for a driver (gpu_wait), the loading itself (llama_api).

Invariants
- Where a model works is what llama.cpp said when it loaded it, never what it was asked to do.
- No sentence blames the build where the driver is at fault, or the other way round.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from tactfuld.inference.errors import ModelError

GpuUse = Literal["auto", "required", "off"]
"""`auto`: where llama.cpp can; `required`: or the model does not load; `off`: never."""

BUILD: Final = (
    "Install llama-cpp-python anew from source with CMAKE_ARGS=-DGGML_CUDA=on (NVIDIA), "
    "-DGGML_METAL=on (Apple) or -DGGML_VULKAN=on (others) in the environment: pip install "
    "--force-reinstall --no-cache-dir --no-binary llama-cpp-python llama-cpp-python; or install a "
    "wheel that its project built for one of them."
)

# What llama.cpp logs for every layer as it decides where it goes, the output layer included.
_ASSIGNED: Final = re.compile(r"layer +\d+ assigned to device ([^\s,]+)")


@dataclass(frozen=True, slots=True)
class GpuDevice:
    """A GPU as llama.cpp names it (`CUDA0`), in the driver's words; `memory` in bytes, or 0."""

    name: str
    description: str
    memory: int


@dataclass(frozen=True, slots=True)
class GpuSupport:
    """What llama.cpp says of GPUs before a model is loaded.

    Attributes:
        supported: whether it was built for a GPU and found one.
        backends: the kinds of GPU that it was built for, such as `CUDA`.
        devices: the GPUs that it found.
    """

    supported: bool
    backends: tuple[str, ...] = ()
    devices: tuple[GpuDevice, ...] = ()


@dataclass(frozen=True, slots=True)
class Offload:
    """Where a loaded model works.

    Attributes:
        layers: how many it has, the output layer included.
        offloaded: how many of them are on a GPU.
        devices: the GPUs that have layers.
    """

    support: GpuSupport
    layers: int
    offloaded: int
    devices: tuple[GpuDevice, ...] = ()

    @property
    def place(self) -> str:
        """The device's name, or `the processor`; both where the layers are shared."""
        names = " and ".join(f"{each.name} ({each.description})" for each in self.devices)
        if not self.offloaded:
            return "the processor"
        return names if self.offloaded == self.layers else f"{names} and the processor"


def gives_layers(use: GpuUse, support: GpuSupport) -> bool:
    """Whether to give llama.cpp's GPUs the layers of a model.

    Raises:
        ModelError: a GPU is required, and this llama.cpp cannot use one.
    """
    if use == "required" and not support.supported:
        raise ModelError(missing(support))
    return support.supported and use != "off"


def missing(support: GpuSupport) -> str:
    """Why a required GPU cannot be used, and what to do."""
    if not support.backends:
        return (
            "The setting `gpu` is `required`, and this llama.cpp cannot use a GPU: it was built "
            f"for the processor only. {BUILD} Or set `gpu` to `auto`."
        )
    return (
        f"The setting `gpu` is `required`, and this llama.cpp cannot use a GPU: it was built for "
        f"{' and '.join(support.backends)}, but finds no device. Look whether the driver is "
        "installed and up (`nvidia-smi`, `vulkaninfo`), and whether the environment hides the "
        "device (CUDA_VISIBLE_DEVICES, GGML_VK_VISIBLE_DEVICES); then start the daemon again. Or "
        "set `gpu` to `auto`."
    )


def read_offload(log: Iterable[str], support: GpuSupport) -> Offload:
    """Where the layers went, from the lines that llama.cpp logged while it loaded a model."""
    assigned = [found[1] for line in log if (found := _ASSIGNED.search(line))]
    known = {device.name: device for device in support.devices}
    on_gpu = [name for name in assigned if name in known]
    used = tuple(known[name] for name in dict.fromkeys(on_gpu))
    return Offload(support, len(assigned), len(on_gpu), used)


def confirm(use: GpuUse, found: Offload) -> None:
    """Raise `ModelError` if a GPU is required and llama.cpp kept layers on the processor."""
    if use == "required" and found.offloaded < found.layers:
        raise ModelError(
            f"The setting `gpu` is `required`, and llama.cpp put {found.offloaded} of the model's "
            f"{found.layers} layers on a GPU. Free some of its memory, use a smaller model, or set "
            "`gpu` to `auto`."
        )
