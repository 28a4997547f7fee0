"""The GPU is used if the owner wants it and llama.cpp can, and what happened is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import llama_cpp
import pytest
from tests.tactfuld.inference.gpus import (
    H200,
    NO_DRIVER,
    ONE_GPU,
    PROCESSOR_ONLY,
    SECOND,
    TWO_GPUS,
    assigned,
)

from tactfuld.inference import llama_api
from tactfuld.inference.engine import EngineSettings
from tactfuld.inference.errors import ModelError
from tactfuld.inference.llama_engine import LlamaEngine
from tactfuld.inference.offload import (
    GpuSupport,
    GpuUse,
    Offload,
    confirm,
    gives_layers,
    missing,
    read_offload,
)

FLAGS = ("CMAKE_ARGS", "-DGGML_CUDA=on", "-DGGML_METAL=on", "-DGGML_VULKAN=on", "wheel")


@pytest.mark.parametrize(
    ("use", "support", "given"),
    [
        ("auto", ONE_GPU, True),
        ("auto", PROCESSOR_ONLY, False),
        ("auto", NO_DRIVER, False),
        ("off", ONE_GPU, False),
        ("off", PROCESSOR_ONLY, False),
        ("required", ONE_GPU, True),
    ],
)
def test_layers_are_given_if_wanted_and_possible(
    use: GpuUse, support: GpuSupport, given: bool
) -> None:
    assert gives_layers(use, support) is given


def test_a_build_for_the_processor_is_refused_with_what_to_build() -> None:
    with pytest.raises(ModelError, match="processor only") as caught:
        gives_layers("required", PROCESSOR_ONLY)
    assert all(flag in str(caught.value) for flag in FLAGS)


def test_a_build_for_a_gpu_without_a_device_is_sent_to_its_driver_and_not_to_a_build() -> None:
    with pytest.raises(ModelError, match="built for CUDA, but finds no device") as caught:
        gives_layers("required", NO_DRIVER)
    assert "driver" in str(caught.value)
    assert "CMAKE_ARGS" not in missing(NO_DRIVER)


@pytest.mark.parametrize(
    ("log", "support", "expected", "place"),
    [
        (
            assigned("CUDA0", "CUDA0", "CUDA0"),
            ONE_GPU,
            Offload(ONE_GPU, 3, 3, (H200,)),
            "CUDA0 (NVIDIA H200)",
        ),
        (
            assigned("CPU", "CUDA0", "CUDA1"),
            TWO_GPUS,
            Offload(TWO_GPUS, 3, 2, (H200, SECOND)),
            "CUDA0 (NVIDIA H200) and CUDA1 (NVIDIA H200) and the processor",
        ),
        (assigned("CPU", "CPU"), ONE_GPU, Offload(ONE_GPU, 2, 0), "the processor"),
        (assigned("CPU", "CPU"), PROCESSOR_ONLY, Offload(PROCESSOR_ONLY, 2, 0), "the processor"),
        ([], ONE_GPU, Offload(ONE_GPU, 0, 0), "the processor"),
    ],
)
def test_where_a_model_works_is_what_llama_cpp_said(
    log: list[str], support: GpuSupport, expected: Offload, place: str
) -> None:
    noise = ["load_tensors: loading model tensors, this can take a while...\n"]
    found = read_offload([*noise, *log], support)
    assert found == expected
    assert found.place == place


def test_a_device_that_llama_cpp_did_not_name_as_a_gpu_is_none() -> None:
    """A word like "BLAS" or a new kind of device is not believed to be a GPU."""
    assert read_offload(assigned("BLAS", "NPU0"), ONE_GPU).offloaded == 0


@pytest.mark.parametrize("offloaded", [0, 2])
def test_a_required_gpu_that_got_not_every_layer_is_refused(offloaded: int) -> None:
    found = Offload(ONE_GPU, 3, offloaded)
    with pytest.raises(ModelError, match=f"put {offloaded} of the model's 3 layers"):
        confirm("required", found)
    confirm("auto", found)
    confirm("required", Offload(ONE_GPU, 3, 3, (H200,)))


async def test_model_does_not_load_without_a_required_gpu(
    embedded_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llama_api, "gpu_support", lambda: PROCESSOR_ONLY)
    engine = LlamaEngine(embedded_model, EngineSettings(context_length=256, gpu="required"))
    engine.start()
    with pytest.raises(ModelError, match="GGML_CUDA"):
        await engine.ready(50)
    assert engine.offload is None
    await engine.close()


class PretendedGpu:
    """Makes llama.cpp look as if it had a GPU, which gets `placed` layers whatever it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, placed: tuple[str, ...]) -> None:
        self.layers: list[int] = []
        self.modes: list[int] = []
        self.contexts: set[tuple[bool, bool]] = set()
        load, make = llama_cpp.llama_model_load_from_file, llama_cpp.llama_init_from_model

        def loading(path: bytes, params: Any) -> Any:
            self.layers.append(params.n_gpu_layers)
            self.modes.append(params.load_mode)
            params.n_gpu_layers = 0
            for line in assigned(*placed):
                llama_api.log.write(1, line.encode())
            llama_api.log.loading = False
            return load(path, params)

        def making(model: Any, params: Any) -> Any:
            self.contexts.add((params.offload_kqv, params.op_offload))
            return make(model, params)

        monkeypatch.setattr(llama_api, "gpu_support", lambda: ONE_GPU)
        monkeypatch.setattr(llama_cpp, "llama_model_load_from_file", loading)
        monkeypatch.setattr(llama_cpp, "llama_init_from_model", making)


@pytest.mark.parametrize(
    ("use", "asked", "placed"),
    [("auto", -1, ("CUDA0", "CUDA0")), ("auto", -1, ("CPU", "CPU")), ("off", 0, ("CPU", "CPU"))],
)
async def test_the_engine_tells_where_the_layers_went_and_not_where_they_were_sent(
    embedded_model: Path,
    monkeypatch: pytest.MonkeyPatch,
    use: GpuUse,
    asked: int,
    placed: tuple[str, ...],
) -> None:
    gpu = PretendedGpu(monkeypatch, placed)
    engine = LlamaEngine(embedded_model, EngineSettings(context_length=256, gpu=use))
    engine.start()
    await engine.ready(50)
    assert engine.offload == read_offload(assigned(*placed), ONE_GPU)
    await engine.close()
    assert gpu.layers == [asked]
    assert gpu.contexts == {(use == "auto", use == "auto")}


async def test_a_required_gpu_that_llama_cpp_did_not_use_fails_the_load(
    embedded_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    PretendedGpu(monkeypatch, ("CPU", "CUDA0"))
    engine = LlamaEngine(embedded_model, EngineSettings(context_length=256, gpu="required"))
    engine.start()
    with pytest.raises(ModelError, match="put 1 of the model's 2 layers"):
        await engine.ready(50)
    await engine.close()


async def test_on_this_machine_every_layer_is_where_llama_cpp_can_put_it(
    embedded_model: Path,
) -> None:
    engine = LlamaEngine(embedded_model, EngineSettings(context_length=256))
    engine.start()
    await engine.ready(50)
    found = engine.offload
    await engine.close()
    assert found is not None
    assert found.layers == 31  # the 30 blocks of SmolLM2-135M and its output layer
    supported = bool(llama_cpp.llama_supports_gpu_offload())
    assert found.support.supported is supported
    assert found.offloaded == (31 if supported else 0)
