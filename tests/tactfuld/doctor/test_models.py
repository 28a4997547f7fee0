"""What is said about the model and what it works on, before and after it is loaded."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.tactfuld.inference.tiny_gguf import TinyGguf

from tactful.profile import Profile
from tactfuld.doctor import models
from tactfuld.doctor.check import State
from tactfuld.doctor.models import (
    GpuFacts,
    ModelFacts,
    check_engine,
    check_gpu,
    check_model,
    check_offload,
    gpu_facts,
    model_facts,
)
from tactfuld.inference.offload import GpuUse, Offload
from tactfuld.settings import Settings, parse_settings

FILE = Path("/models/toy.gguf")
SOUND = ModelFacts(FILE, present=True, loaded_before=True)


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    return replace(Profile.at(tmp_path / "p"), cache=tmp_path / "cache")


def naming(path: Path) -> Settings:
    return parse_settings(f"model: {{use: {path}}}\n", source="settings.yaml")


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (SOUND, State.OK),
        (replace(SOUND, loaded_before=False), State.OK),
        (replace(SOUND, refusal="It is damaged."), State.PROBLEM),
        (ModelFacts(FILE, present=False), State.PROBLEM),
    ],
)
def test_a_model_that_is_not_there_or_damaged_is_a_problem(found: ModelFacts, state: State) -> None:
    assert check_model(found).state is state


def test_a_model_file_is_looked_at(profile: Profile, tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    assert model_facts(profile, naming(file)) == ModelFacts(file, present=False)
    file.write_bytes(TinyGguf().build())
    assert model_facts(profile, naming(file)) == ModelFacts(file, present=True)
    file.write_bytes(b"no GGUF")
    assert "tiny.gguf" in model_facts(profile, naming(file)).refusal


@pytest.mark.parametrize(
    ("state", "expected"),
    [("ready", State.OK), ("loading", State.OK), ("failed", State.PROBLEM)],
)
def test_a_running_engine_is_taken_at_its_word(state: str, expected: State) -> None:
    assert check_engine("toy", state, None).state is expected
    assert check_engine("toy", "failed", "It was killed.").detail == "It was killed."


@pytest.mark.parametrize(
    ("use", "supported", "state", "place"),
    [
        ("auto", True, State.OK, "works on a GPU"),
        ("auto", False, State.OK, "works on the processor"),
        ("off", True, State.OK, "works on the processor"),
        ("required", True, State.OK, "works on a GPU"),
        ("required", False, State.PROBLEM, "cannot use a GPU"),
        ("auto", None, State.PROBLEM, "could not be asked"),
    ],
)
def test_a_gpu_is_a_problem_only_where_it_is_required_or_nobody_can_say(
    use: GpuUse, supported: bool | None, state: State, place: str
) -> None:
    check = check_gpu(GpuFacts(use, supported, complaint="dead"))
    assert (check.state, place in check.detail) == (state, True)


def test_what_a_loaded_model_works_on_is_what_the_engine_says() -> None:
    assert "works on a GPU" in check_offload(Offload(supported=True, offloaded=True)).detail
    assert "on the processor" in check_offload(Offload(supported=True, offloaded=False)).detail
    assert check_offload(None).state is State.NOT_APPLICABLE


def test_llama_cpp_itself_is_asked() -> None:
    import llama_cpp

    assert gpu_facts("auto") == GpuFacts("auto", bool(llama_cpp.llama_supports_gpu_offload()))


@pytest.mark.parametrize(
    ("program", "complaint"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended by SIGKILL"),
        ("raise SystemExit(3)", "ended with status 3"),
    ],
)
def test_a_llama_cpp_that_dies_ends_nobody_else(
    monkeypatch: pytest.MonkeyPatch, program: str, complaint: str
) -> None:
    monkeypatch.setattr(models, "_ASK", program)
    found = gpu_facts("auto")
    assert (found.supported, complaint in found.complaint) == (None, True)


def test_a_python_that_cannot_be_started_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/absent")
    assert "could not be started" in gpu_facts("auto").complaint
