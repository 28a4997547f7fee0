"""The GPU is used if the owner wants it and llama.cpp can, and what happened is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import llama_cpp
import pytest

from tactfuld.inference.engine import EngineSettings, LlamaEngine
from tactfuld.inference.errors import ModelError
from tactfuld.inference.offload import GpuUse, Offload, choose_offload


@pytest.mark.parametrize(
    ("use", "supported", "offloaded"),
    [
        ("auto", True, True),
        ("auto", False, False),
        ("off", True, False),
        ("off", False, False),
        ("required", True, True),
    ],
)
def test_layers_are_offloaded_if_wanted_and_possible(
    use: GpuUse, supported: bool, offloaded: bool
) -> None:
    assert choose_offload(use, supported=supported) == Offload(supported, offloaded)


def test_required_gpu_that_llama_cpp_cannot_use_is_refused_with_what_to_build() -> None:
    with pytest.raises(ModelError) as caught:
        choose_offload("required", supported=False)
    for flag in ("CMAKE_ARGS", "-DGGML_CUDA=on", "-DGGML_METAL=on", "-DGGML_VULKAN=on"):
        assert flag in str(caught.value)


async def test_model_does_not_load_without_a_required_gpu(
    embedded_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llama_cpp, "llama_supports_gpu_offload", lambda: False)
    engine = LlamaEngine(embedded_model, EngineSettings(context_length=256, gpu="required"))
    engine.start()
    with pytest.raises(ModelError, match="GGML_CUDA"):
        await engine.ready(50)
    assert engine.offload is None
    await engine.close()


@pytest.mark.parametrize(("use", "layers"), [("auto", -1), ("off", 0)])
async def test_llama_cpp_is_told_and_the_engine_tells(
    embedded_model: Path, monkeypatch: pytest.MonkeyPatch, use: GpuUse, layers: int
) -> None:
    """As if llama.cpp had a GPU; one without ignores how many layers it is given."""
    told: list[int] = []
    contexts: list[tuple[bool, bool]] = []
    load, make = llama_cpp.llama_model_load_from_file, llama_cpp.llama_init_from_model

    def loading(path: bytes, params: Any) -> Any:
        told.append(params.n_gpu_layers)
        params.n_gpu_layers = 0
        return load(path, params)

    def making(model: Any, params: Any) -> Any:
        contexts.append((params.offload_kqv, params.op_offload))
        return make(model, params)

    monkeypatch.setattr(llama_cpp, "llama_supports_gpu_offload", lambda: True)
    monkeypatch.setattr(llama_cpp, "llama_model_load_from_file", loading)
    monkeypatch.setattr(llama_cpp, "llama_init_from_model", making)
    engine = LlamaEngine(embedded_model, EngineSettings(context_length=256, gpu=use))
    engine.start()
    await engine.ready(50)
    assert engine.offload == Offload(supported=True, offloaded=use == "auto")
    await engine.close()
    assert told == [layers]
    assert set(contexts) == {(use == "auto", use == "auto")}
