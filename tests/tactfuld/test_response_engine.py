"""A real model comes, goes and comes again, and its file may change meanwhile."""

from __future__ import annotations

import asyncio
import io
import shutil
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import llama_cpp
import pytest
from tests.fakes.manual_clock import ManualClock
from tests.model_fixture import embedded_model

from tactful.profile import Profile
from tactfuld import response_engine as response_engine_module
from tactfuld.inference.engine import Engine, EngineSettings, EngineState
from tactfuld.inference.errors import DecodeFailed, EngineBusy, ModelError
from tactfuld.inference.llama_engine import LlamaEngine
from tactfuld.inference.offload import GpuUse
from tactfuld.inference.prompt import Prompt
from tactfuld.inference.residence import RETRY_SECONDS
from tactfuld.inference.trial import FirstLoads
from tactfuld.inference.weights_file import WeightsFile
from tactfuld.journal import LogLevel, open_journal
from tactfuld.notices import Notices
from tactfuld.resident_memory import resident_bytes
from tactfuld.response_engine import LAST_WORDS, remote_of, residence_rules, response_engine
from tactfuld.settings import Settings, parse_settings

__all__ = ["embedded_model"]

PROMPT = Prompt("Be brief.", "Name three fruits.")
MINUTES = 5


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    return replace(Profile.at(tmp_path / "p"), cache=tmp_path / "cache")


@pytest.fixture
def settings(embedded_model: Path, tmp_path: Path) -> Settings:
    """Of a model file of our own."""
    path = shutil.copy(embedded_model, tmp_path / "toy.gguf")
    text = f"model: {{use: {path}, context: 512, idle_unload: {MINUTES}}}\n"
    return parse_settings(text, source="settings.yaml")


async def words(engine: Engine) -> str:
    await engine.admit()
    return "".join([piece async for piece in engine.generate(PROMPT, max_tokens=4)])


async def memory() -> int:
    told = await asyncio.to_thread(resident_bytes)
    assert told is not None
    return told


def weights_of(engine: Engine) -> int:
    return engine.memory.weights if engine.memory is not None else 0


def assert_is(engine: Engine, state: EngineState) -> None:
    assert engine.state is state


def test_the_settings_say_when_the_model_is_in_memory() -> None:
    text = "gpu: 'off'\nmodel: {idle_unload: 5, pause_on_battery: true}\n"
    rules = residence_rules(parse_settings(text, source="settings.yaml"))
    assert (rules.gpu, rules.idle_seconds, rules.pause_on_battery) == ("off", 300.0, True)


@pytest.mark.timeout(180)
async def test_a_model_frees_its_memory_and_survives_what_happens_to_its_file(
    embedded_model: Path, profile: Profile, settings: Settings
) -> None:
    path = Path(settings.model.use)
    notices = Notices(open_journal(io.StringIO(), LogLevel("debug")))
    clock = ManualClock()

    async def idle() -> None:
        clock.advance(60.0 * MINUTES)
        await engine.look()
        assert_is(engine, EngineState.ASLEEP)

    async with response_engine(profile, settings, clock, notices) as engine:
        await engine.ready(100)
        weights = weights_of(engine)
        assert weights > path.stat().st_size * 0.9
        assert await words(engine)
        loaded = await memory()
        await idle()
        assert loaded - await memory() > weights // 2
        assert weights_of(engine) == 0

        # Loaded again, then the file is cut short and goes: the weights are in memory.
        assert await words(engine)
        with path.open("r+b") as file:
            file.truncate(4096)
        assert await words(engine)
        await engine.look()
        assert "is not the one that was loaded" in " ".join(notices.sentences)
        path.unlink()
        assert await words(engine)
        await engine.look()
        assert "is gone" in " ".join(notices.sentences)

        # With the next load it counts, and once it is back all is well.
        await idle()
        with pytest.raises(ModelError, match=r"toy\.gguf"):
            await engine.admit()
        assert_is(engine, EngineState.FAILED)
        shutil.copy(embedded_model, path)
        clock.advance(RETRY_SECONDS)
        assert await words(engine)
        await engine.look()
        assert notices.sentences == ()


REMOTE = """\
remote:
  url: https://models.example/v1
  consent: answers to apps leave this machine
  model: big
  seconds: 60
model: {context: 512}
"""


def test_apps_are_answered_where_the_settings_say() -> None:
    assert remote_of(parse_settings("", source="settings.yaml")) is None
    remote = remote_of(parse_settings(REMOTE, source="settings.yaml"))
    assert remote is not None
    assert (remote.endpoint.host, remote.endpoint.model) == ("models.example", "big")
    assert (remote.seconds, remote.context) == (60.0, 512)
    assert remote.endpoint.key() is None


async def test_what_llama_cpp_said_when_it_ended_the_daemon_is_told_once(
    profile: Profile, settings: Settings
) -> None:
    await asyncio.to_thread(profile.state.mkdir, parents=True)
    await asyncio.to_thread((profile.state / LAST_WORDS).write_text, "CUDA error: lost")
    for expected in ("llama.cpp ended the daemon the last time: CUDA error: lost.", ""):
        notices = Notices(open_journal(io.StringIO(), LogLevel("debug")))
        async with response_engine(profile, settings, ManualClock(), notices):
            pass
        assert " ".join(notices.sentences).startswith(expected)
        assert bool(notices.sentences) is bool(expected)


async def test_a_call_of_llama_cpps_that_fails_for_good_is_told_from_others(
    embedded_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a lost GPU is noticed by, through the real engine."""
    engine = LlamaEngine(embedded_model, EngineSettings(context_length=256))
    engine.start()
    await engine.ready(50)
    monkeypatch.setattr(llama_cpp, "llama_decode", lambda _context, _batch: -3)
    with pytest.raises(DecodeFailed) as caught:
        [piece async for piece in engine.generate(PROMPT, max_tokens=4)]
    assert caught.value.code == -3
    await engine.close()


async def test_a_driver_is_waited_for_at_the_first_load_alone(
    profile: Profile, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[GpuUse] = []
    monkeypatch.setattr(response_engine_module, "wait_for_gpu", lambda use, _: waited.append(use))
    monkeypatch.setattr(FirstLoads, "ensure", lambda *_: None)
    make = response_engine_module._maker(profile, settings, WeightsFile(Path(settings.model.use)))
    for _ in range(2):
        engine = make("auto")
        assert isinstance(engine, LlamaEngine)
        await asyncio.to_thread(engine._check, Path(settings.model.use), lambda: False)
    assert waited == ["auto"]


@pytest.mark.parametrize(("said", "places"), [("", 16), (", streams: 1", 9), (", streams: 16", 24)])
async def test_the_settings_say_how_many_answers_are_written_side_by_side(
    profile: Profile, tmp_path: Path, said: str, places: int
) -> None:
    """As many, and 8 that wait, may be an app's."""
    path = tmp_path / "toy.gguf"
    text = f"model: {{use: {path}{said}}}\n"
    settings = await asyncio.to_thread(parse_settings, text, source="settings.yaml")
    file = await asyncio.to_thread(WeightsFile, path)
    engine = response_engine_module._maker(profile, settings, file)("auto")
    async with AsyncExitStack() as held:
        for _ in range(places):
            await held.enter_async_context(engine.place())
        with pytest.raises(EngineBusy):
            await held.enter_async_context(engine.place())
