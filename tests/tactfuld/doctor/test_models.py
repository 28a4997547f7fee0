"""What is said about the model and what it works on, before and after it is loaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import keyring
import pytest
from tests.tactfuld.inference.gpus import H200, NO_DRIVER, ONE_GPU, PROCESSOR_ONLY
from tests.tactfuld.inference.tiny_gguf import TinyGguf

from tactful.profile import Profile
from tactfuld.doctor.check import State
from tactfuld.doctor.models import (
    GpuFacts,
    ModelFacts,
    check_engine,
    check_gpu,
    check_model,
    check_offload,
    check_remote,
    gpu_facts,
    model_facts,
)
from tactfuld.inference.gpu_wait import Asked
from tactfuld.inference.offload import GpuSupport, GpuUse, Offload
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
    [
        ("ready", State.OK),
        ("loading", State.OK),
        ("asleep", State.OK),
        ("paused", State.OK),
        ("failed", State.PROBLEM),
    ],
)
def test_a_running_engine_is_taken_at_its_word(state: str, expected: State) -> None:
    assert check_engine("toy", state, None).state is expected
    assert check_engine("toy", "failed", "It was killed.").detail == "It was killed."


@pytest.mark.parametrize(
    ("use", "support", "state", "place"),
    [
        ("auto", ONE_GPU, State.OK, "works on a GPU (CUDA0, NVIDIA H200)"),
        ("auto", PROCESSOR_ONLY, State.OK, "works on the processor"),
        ("auto", NO_DRIVER, State.OK, "built for CUDA and finds no device"),
        ("off", ONE_GPU, State.OK, "works on the processor"),
        ("required", ONE_GPU, State.OK, "works on a GPU"),
        ("required", PROCESSOR_ONLY, State.PROBLEM, "-DGGML_VULKAN=on"),
        ("required", NO_DRIVER, State.PROBLEM, "driver"),
        ("auto", None, State.PROBLEM, "could not be asked: dead"),
    ],
)
def test_a_gpu_is_a_problem_only_where_it_is_required_or_nobody_can_say(
    use: GpuUse, support: GpuSupport | None, state: State, place: str
) -> None:
    check = check_gpu(GpuFacts(use, Asked(support, "" if support else "dead")))
    assert (check.state, place in check.detail) == (state, True)


def test_what_a_loaded_model_works_on_is_what_the_engine_says() -> None:
    whole = check_offload(Offload(ONE_GPU, 31, 31, (H200,))).detail
    assert "works on CUDA0 (NVIDIA H200): 31 of its 31 layers" in whole
    none = check_offload(Offload(ONE_GPU, 31, 0)).detail
    assert "can use a GPU here, and the model works on the processor: 0 of its 31" in none
    assert check_offload(None).state is State.NOT_APPLICABLE


def test_llama_cpp_itself_is_asked() -> None:
    from tactfuld.inference.gpu_support import gpu_support

    assert gpu_facts("auto") == GpuFacts("auto", Asked(gpu_support()))


ELSEWHERE = """\
remote:
  url: https://models.example/v1
  consent: answers to apps leave this machine
  model: big
  key: {key}
"""


@pytest.mark.parametrize(
    ("key", "kept", "state", "words"),
    [
        ("null", None, State.OK, "Apps are answered by models.example"),
        ("env:BIG_KEY", None, State.OK, "the turns of their threads"),
        ("keyring", "sk-0", State.OK, "Apps are answered by models.example"),
        ("keyring", None, State.PROBLEM, "no key in the keyring"),
    ],
)
def test_answers_that_leave_the_machine_are_said(
    monkeypatch: pytest.MonkeyPatch, key: str, kept: str | None, state: State, words: str
) -> None:
    monkeypatch.setattr(keyring, "get_password", lambda _service, _name: kept)
    settings = parse_settings(ELSEWHERE.format(key=key), source="settings.yaml")
    check = check_remote(settings)
    assert (check.state, words in check.detail) == (state, True)


def test_answers_that_stay_are_no_matter() -> None:
    assert check_remote(Settings()).state is State.NOT_APPLICABLE
    assert check_remote(None).state is State.UNKNOWN
