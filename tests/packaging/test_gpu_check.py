"""`make gpu-check` tells what it saw, and what it could not look at is `not run`."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.model_fixture import embedded_model

__all__ = ["embedded_model"]

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "packaging" / "gpu_check.py"
DOCUMENT = (ROOT / "docs" / "models.md").read_text("utf-8")
KEPT = ROOT / "docs" / "gpu"


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gpu_check", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


gpu_check: Any = script()
Part = gpu_check.Part

DEVICE = {"name": "CUDA0", "description": "NVIDIA H200", "memory": 150_000_000_000}
WITH_GPU = [
    Part("support", None, {"supported": True, "backends": ["CUDA"], "devices": [DEVICE]}),
    Part("offload", True, {"layers": 31, "offloaded": 31, "place": "CUDA0 (NVIDIA H200)"}),
    Part("public_row", True, {"gpu": "required", "2 rows": True, "9 rows": True}),
    Part("speed", None, {"prompt": 900.0, "one_stream": 90.0, "eight_streams": 500.0}),
    Part("speed", None, {"prompt": 60.0, "one_stream": 12.0, "eight_streams": 30.0}),
]
WITHOUT = [
    Part("support", None, {"supported": False, "backends": [], "devices": []}),
    Part("offload", None, {}, gpu_check.NOT_RUN),
    Part("public_row", True, {"gpu": "off", "2 rows": True}),
    Part("speed_gpu", None, {}, gpu_check.NOT_RUN),
    WITH_GPU[4],
]


def page(folder: Path, parts: list[Any], *, gpu: bool) -> str:
    path = gpu_check._write(folder, Path("/models/toy.gguf"), parts, load=0.1, gpu=gpu)
    assert json.loads(path.with_suffix(".json").read_text("utf-8"))["gpu"] is gpu
    assert "/models" not in path.read_text("utf-8")
    return str(path.read_text("utf-8"))


def test_with_a_gpu_every_part_is_told(tmp_path: Path) -> None:
    told = page(tmp_path, WITH_GPU, gpu=True)
    assert "CUDA0, NVIDIA H200" in told
    assert "| holds; layers: 31, offloaded: 31, place: CUDA0 (NVIDIA H200) |" in told
    assert "on the GPU | holds; gpu: required, 2 rows: yes, 9 rows: yes |" in told
    assert "| one stream | 90.0 | 12.0 |" in told
    assert gpu_check.NOT_RUN not in told
    assert gpu_check._status(WITH_GPU, gpu=True) == 0


def test_without_a_gpu_it_says_so_and_does_not_pass(tmp_path: Path) -> None:
    told = page(tmp_path, WITHOUT, gpu=False)
    assert "**Not run on a GPU**: llama.cpp was built for the processor only" in told
    assert "| every layer is on the GPU | not run |" in told
    assert "| one stream | not run | 12.0 |" in told
    assert gpu_check._status(WITHOUT, gpu=False) == 3


def test_a_build_whose_device_is_missing_is_told_by_its_kind(tmp_path: Path) -> None:
    support = Part("support", None, {"supported": False, "backends": ["CUDA"], "devices": []})
    told = page(tmp_path, [support, *WITHOUT[1:]], gpu=False)
    assert "built for CUDA and finds no device" in told


@pytest.mark.parametrize(
    "part",
    [
        Part("offload", False, {"layers": 31, "offloaded": 0}),
        Part("public_row", False, {"gpu": "required", "2 rows": False}),
        Part("public_row", False, {}, "its process ended with status -6"),
    ],
)
def test_a_part_that_does_not_hold_fails_the_check(tmp_path: Path, part: Any) -> None:
    place = ["support", "offload", "public_row"].index(part.name)
    parts = [*WITH_GPU[:place], part, *WITH_GPU[place + 1 :]]
    assert "**does not hold**" in page(tmp_path, parts, gpu=True)
    assert gpu_check._status(parts, gpu=True) == 1


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("import os; os.abort()", "ended with status -6"),
        ("import time; time.sleep(60)", "longer than 1 seconds"),
    ],
)
def test_a_driver_that_dies_or_hangs_is_a_part_that_does_not_hold(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str, problem: str
) -> None:
    path = tmp_path / "part.py"
    path.write_text(program)
    monkeypatch.setattr(gpu_check, "__file__", str(path))
    seconds = 1 if "sleep" in program else 50
    monkeypatch.setattr(gpu_check, "SECONDS", {"offload": seconds})
    part = gpu_check._run("offload", Path("/toy.gguf"), "required")
    assert (part.holds, problem in part.problem) == (False, True)


def test_all_parts_together_stay_under_eight_minutes() -> None:
    from tactfuld.inference.gpu_wait import PATIENCE

    assert sum(gpu_check.SECONDS.values()) + PATIENCE < 8 * 60


def test_a_part_is_really_run(embedded_model: Path) -> None:
    part = gpu_check._run("public_row", embedded_model, "off")
    assert (part.holds, part.problem) == (True, "")
    assert set(part.found) == {"gpu", *(f"{rows} rows" for rows in gpu_check.ROWS)}


def test_a_gpu_that_is_required_and_not_there_is_no_success(embedded_model: Path) -> None:
    import llama_cpp

    if llama_cpp.llama_supports_gpu_offload():
        pytest.skip("This machine has a GPU.")
    part = gpu_check._run("offload", embedded_model, "required")
    assert part.holds is False
    assert "GGML_CUDA" in part.problem


def test_a_model_that_is_not_there_is_said() -> None:
    command = [sys.executable, str(SCRIPT), "--model", "/absent.gguf"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=50)
    assert done.returncode == 1
    assert b"There is no model file" in done.stderr


def test_the_document_says_not_run_for_as_long_as_no_result_is_kept() -> None:
    kept = list(KEPT.glob("gpu-check-*.md")) if KEPT.is_dir() else []
    assert ("`make gpu-check` was **not run** on a GPU" in DOCUMENT) is (not kept)
    assert all(path.name in DOCUMENT for path in kept)
