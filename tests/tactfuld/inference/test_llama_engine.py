"""The llama.cpp engine keeps the contract of engines, and keeps requests apart."""

import asyncio
import gc
import os
import sys
import threading
import traceback
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import pytest
from tests.tactfuld.inference.engine_contract import (
    GROUP,
    MAX_WAITING,
    ORDINARY,
    PROMPT,
    EngineContract,
    MakeEngine,
    begin,
    read,
    settle,
)
from tests.tactfuld.inference.tiny_gguf import TinyGguf

from tactful_core.values import Secret
from tactfuld.inference import llama_api, llama_engine
from tactfuld.inference.engine import Engine, EngineSettings, EngineState
from tactfuld.inference.errors import EngineClosed, ModelError, PromptTooLong
from tactfuld.inference.llama_api import ERROR_LEVEL, LlamaContext, LlamaModel, LoadRequest, log
from tactfuld.inference.llama_engine import LlamaEngine
from tactfuld.inference.prompt import Prompt
from tactfuld.inference.requests import Request, Source
from tactfuld.inference.rows import Row
from tactfuld.inference.sampling import Sampling

GREEDY = Sampling(temperature=0.0)
OTHER = Prompt("You are a pirate.", "Tell me about the weather on the sea, the ship and the gold.")
STORY = Prompt("You are a story teller.", "Tell me a very long story about a knight and a dragon.")


def settings(sampling: Sampling = GREEDY) -> EngineSettings:
    return EngineSettings(
        context_length=1024, max_waiting=MAX_WAITING, streams=1, sampling=sampling
    )


class TestLlamaEngine(EngineContract):
    """The contract, on the real model."""

    @pytest.fixture
    def make_engine(self, embedded_model: Path) -> MakeEngine:
        def make() -> Engine:
            return LlamaEngine(embedded_model, settings())

        return make


@pytest.fixture
async def engine(embedded_model: Path) -> AsyncGenerator[LlamaEngine, None]:
    engine = LlamaEngine(embedded_model, settings())
    engine.start()
    await engine.ready(50)
    yield engine
    await engine.close()


async def test_apps_take_turns(engine: LlamaEngine) -> None:
    """One that asked first, and twice, is not answered twice before another."""
    served: list[str] = []

    async def ask(app: str) -> None:
        async with engine.place(Source(app)) as place:
            assert [p async for p in engine.generate(PROMPT, max_tokens=1, place=place)]
        served.append(app)

    reply = await begin(engine)
    async with asyncio.TaskGroup() as tasks:
        for app in ("first", "first", "second"):
            tasks.create_task(ask(app), name=app)
            await settle()
        await reply.aclose()
    assert sorted(served) == ["first", "first", "second"]
    assert served.index("second") < 2


async def reply_to(engine: Engine, prompt: Prompt, max_tokens: int = 12) -> str:
    return "".join([piece async for piece in engine.generate(prompt, max_tokens=max_tokens)])


async def three_replies(engine: Engine) -> tuple[str, str, str]:
    """The same question alone, after another reply, and after one broken off."""
    alone = await reply_to(engine, PROMPT)
    await reply_to(engine, OTHER)
    after_another = await reply_to(engine, PROMPT)
    broken_off = engine.generate(OTHER, max_tokens=200)
    await anext(broken_off)
    await broken_off.aclose()
    return alone, after_another, await reply_to(engine, PROMPT)


async def test_a_reply_does_not_depend_on_earlier_requests(engine: LlamaEngine) -> None:
    alone, after_another, after_broken_off = await three_replies(engine)
    assert alone == after_another == after_broken_off


async def test_mutant_without_clearing_is_caught(
    engine: LlamaEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LlamaContext, "clear", lambda _context, *, erase: None)
    monkeypatch.setattr(LlamaContext, "remove", lambda _context, *_: None)
    with pytest.raises(ModelError, match="could not continue"):
        await three_replies(engine)


async def test_nothing_of_a_request_stays_in_the_engine(engine: LlamaEngine) -> None:
    marker = "quince marmalade"
    workers = [each for each in threading.enumerate() if each.name in {"llama", "llama owner"}]
    assert len(workers) == 2

    def marked() -> list[str]:
        reached = texts_reachable(engine) + [t for each in workers for t in texts_in_frames(each)]
        assert len(reached) > 50
        return [text for text in reached if marker in text]

    prompt = Prompt(f"Only {marker}.", f"Say something about {marker}.")
    await reply_to(engine, prompt)
    assert [piece async for piece in engine.generate_for_owner(Secret(prompt), max_tokens=4)]
    # The reply's end is handed over a moment before the worker lets go of the request.
    for _ in range(500):
        if not marked():
            break
        await asyncio.sleep(0.01)
    assert not marked()


async def test_mutant_that_keeps_the_request_is_caught(
    engine: LlamaEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[object] = []
    monkeypatch.setattr(engine, "kept", kept, raising=False)
    prompt = Prompt("", "quince marmalade")
    kept.append(Request(prompt, 1))
    assert [text for text in texts_reachable(engine) if "quince" in text]


@dataclass
class Work:
    """The llama.cpp calls of an engine, by the name of the thread that made them, in order."""

    calls: list[str] = field(default_factory=list)

    def between_apps(self) -> int:
        """The owner's calls that began after an app's first and before its last."""
        mine = [at for at, name in enumerate(self.calls) if name == "llama"]
        return self.calls[mine[0] : mine[-1]].count("llama owner")


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    seen = Work()
    decode = LlamaContext.decode

    def noted(context: LlamaContext, rows: Sequence[Row]) -> None:
        seen.calls.append(threading.current_thread().name)
        decode(context, rows)

    monkeypatch.setattr(LlamaContext, "decode", noted)
    return seen


async def ask_during_an_answer_to_the_owner(engine: LlamaEngine, work: Work) -> int:
    """An app asks in the middle of a long answer to the owner; how much of that is left then."""
    owners = engine.generate_for_owner(Secret(STORY), max_tokens=100)
    await anext(owners)
    work.calls.clear()
    assert await reply_to(engine, OTHER, 30)
    served = len(work.calls)
    assert [piece async for piece in owners]
    return len(work.calls) - served


async def test_owners_reply_stands_still_while_an_app_is_served(
    engine: LlamaEngine, work: Work
) -> None:
    """Only the one call that was under way when the app came may still be noted after it.

    The app's reply may have 30 tokens, and ends with its sentence from the fifteenth on.
    """
    assert await ask_during_an_answer_to_the_owner(engine, work) > 50
    assert 15 <= work.calls.count("llama") <= 30
    assert work.between_apps() <= 1


async def test_mutant_in_which_the_owner_does_not_give_way_is_caught(
    engine: LlamaEngine, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine._owner, "_behind", None)
    await ask_during_an_answer_to_the_owner(engine, work)
    assert work.between_apps() > 1


async def test_replies_of_apps_and_owner_do_not_depend_on_each_other(engine: LlamaEngine) -> None:
    async def owners(prompt: Prompt) -> str:
        reply = engine.generate_for_owner(Secret(prompt), max_tokens=12)
        return "".join([piece async for piece in reply])

    alone = await reply_to(engine, PROMPT)
    assert await owners(PROMPT) == alone
    assert await owners(OTHER) != alone
    assert await reply_to(engine, PROMPT) == alone
    assert await owners(PROMPT) == alone


async def test_owners_context_is_overwritten_however_the_reply_ends(
    engine: LlamaEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleared: list[tuple[str, bool]] = []
    clear = LlamaContext.clear

    def noted(context: LlamaContext, *, erase: bool) -> None:
        clear(context, erase=erase)
        cleared.append((threading.current_thread().name, erase))

    monkeypatch.setattr(LlamaContext, "clear", noted)
    whole = engine.generate_for_owner(Secret(PROMPT), max_tokens=2)
    assert [piece async for piece in whole]
    broken_off = engine.generate_for_owner(Secret(PROMPT), max_tokens=300)
    await anext(broken_off)
    await broken_off.aclose()
    await engine.close()
    owners = [erase for name, erase in cleared if name == "llama owner"]
    assert owners == [False, True] * 2


async def test_an_error_of_the_owners_reply_leaves_apps_alone(
    engine: LlamaEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*_: object, **_named: object) -> NoReturn:
        raise ModelError("There is no memory for a context.")

    monkeypatch.setattr(llama_api, "_make_context", no_memory)
    with pytest.raises(ModelError, match="no memory"):
        await anext(engine.generate_for_owner(Secret(PROMPT), max_tokens=2))
    assert engine.state is EngineState.READY
    assert await read(engine, 2)


def texts_reachable(root: object) -> list[str]:
    """All strings that can be reached from `root` without passing a module or a class."""
    seen: set[int] = set()
    texts: list[str] = []
    left = [root]
    while left:
        item = left.pop()
        if id(item) in seen or isinstance(item, type | type(sys)):
            continue
        seen.add(id(item))
        if isinstance(item, str):
            texts.append(item)
        # Through a function one reaches its module's globals: all of the program.
        elif not callable(item) or hasattr(item, "__self__"):
            left.extend(gc.get_referents(item))
    return texts


def texts_in_frames(thread: threading.Thread) -> list[str]:
    """All strings that can be reached from the local variables of `thread`."""
    assert thread.ident is not None
    frame = sys._current_frames().get(thread.ident)
    texts: list[str] = []
    while frame is not None:
        texts += texts_reachable(dict(frame.f_locals))
        frame = frame.f_back
    return texts


async def test_closing_a_reply_stops_the_worker_within_a_token(
    engine: LlamaEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    decode = LlamaContext.decode

    def counted(context: LlamaContext, rows: Sequence[Row]) -> None:
        calls.append(len(rows))
        decode(context, rows)

    monkeypatch.setattr(LlamaContext, "decode", counted)
    reply = await begin(engine)
    await reply.aclose()
    at_close = len(calls)
    await read(engine, 1)
    # One token that was on its way, and the next prompt, which fits one batch.
    assert len(calls) <= at_close + 2
    assert len(calls) < 50


async def test_the_loop_runs_while_the_model_works(engine: LlamaEngine) -> None:
    turns = 0
    done = asyncio.Event()

    async def count_turns() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(count_turns(), name="turns of the loop")
        pieces = await read(engine, 6)
        done.set()
    # A loop held by the model would turn about once for each piece.
    assert turns > 10 * len(pieces)


async def test_draws_differ_between_requests(embedded_model: Path) -> None:
    """Seeds come fresh from the system: five hot replies alike would be less likely than 2^-40."""
    hot = Sampling(temperature=5.0, top_p=1.0, min_p=0.0)
    engine = LlamaEngine(embedded_model, settings(hot))
    engine.start()
    replies = {await reply_to(engine, PROMPT, 5) for _ in range(5)}
    await engine.close()
    assert len(replies) > 1


async def test_counts_tokens_while_a_reply_runs(engine: LlamaEngine) -> None:
    reply = await begin(engine)
    assert await engine.count_tokens("three plain words") == 3
    await reply.aclose()


async def test_open_starts_and_closes(embedded_model: Path) -> None:
    async with LlamaEngine.open(embedded_model, context_length=512, threads=1) as engine:
        await engine.ready(50)
        assert engine.name == embedded_model.stem
    assert engine.state is EngineState.CLOSED


async def test_close_ends_a_load_in_progress(embedded_model: Path) -> None:
    engine = LlamaEngine(embedded_model, settings())
    engine.start()
    await engine.close()
    with pytest.raises(EngineClosed):
        await engine.ready(5)


async def test_says_nothing_on_the_terminal(
    embedded_model: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with LlamaEngine.open(embedded_model, context_length=512) as engine:
        assert await read(engine, 2)
    assert capfd.readouterr() == ("", "")


async def test_an_internal_error_ends_the_reply_without_its_text(
    engine: LlamaEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_context: LlamaContext, _rows: Sequence[Row]) -> None:
        raise LookupError("secret words")

    with monkeypatch.context() as patch:
        patch.setattr(LlamaContext, "decode", broken)
        with pytest.raises(ModelError, match="LookupError") as caught:
            await read(engine, 2)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None
    assert await read(engine, 2)


async def test_an_error_shows_no_frame_of_the_worker(engine: LlamaEngine) -> None:
    """Their variables hold token ids, and some loggers print the variables of a traceback."""
    with pytest.raises(PromptTooLong) as caught:
        await reply_to(engine, Prompt("", "marzipan " * 3000))
    names = {frame.f_code.co_name for frame, _ in traceback.walk_tb(caught.value.__traceback__)}
    assert "_pieces" in names
    assert not names & {"serve", "_answer", "_began", "encode"}


def missing(_embedded: Path, path: Path) -> None:
    del path


def magic_only(_embedded: Path, path: Path) -> None:
    path.write_bytes(b"GGUF")


def garbage(_embedded: Path, path: Path) -> None:
    path.write_bytes(os.urandom(1 << 16))


def truncated(embedded: Path, path: Path) -> None:
    with embedded.open("rb") as whole:
        path.write_bytes(whole.read(2 << 20))


def folder(_embedded: Path, path: Path) -> None:
    path.mkdir()


def unknown_architecture(_embedded: Path, path: Path) -> None:
    path.write_bytes(TinyGguf().build())


@pytest.mark.parametrize(
    "make", [missing, magic_only, garbage, truncated, folder, unknown_architecture]
)
async def test_a_bad_model_file_fails_with_a_sentence(
    make: Callable[[Path, Path], None],
    embedded_model: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "model.gguf"
    make(embedded_model, path)
    engine = LlamaEngine(path, settings())
    engine.start()
    with pytest.raises(ModelError, match=r"model\.gguf") as caught:
        await engine.ready(50)
    assert engine.state is EngineState.FAILED
    assert engine.problem == str(caught.value)
    with pytest.raises(ModelError):
        await read(engine, 1)
    with pytest.raises(ModelError):
        await engine.count_tokens("words")
    await engine.close()
    assert capfd.readouterr() == ("", "")


async def test_a_failed_load_tells_llama_cpps_reason(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(TinyGguf().build())
    engine = LlamaEngine(path, settings())
    engine.start()
    with pytest.raises(ModelError, match="nonesuch"):
        await engine.ready(50)
    await engine.close()


def test_load_reports_progress_and_can_be_stopped(embedded_model: Path) -> None:
    told: list[float] = []

    def go_on_until_half(done: float) -> bool:
        told.append(done)
        return done < 0.5

    request = LoadRequest(
        path=embedded_model, context_length=256, batch=64, threads=1, on_progress=go_on_until_half
    )
    with pytest.raises(ModelError):
        LlamaModel(request)
    assert told == sorted(told)
    assert told[0] == 0.0
    assert 0.5 <= told[-1] < 1.0


def test_the_context_never_exceeds_what_the_model_was_trained_for(embedded_model: Path) -> None:
    request = LoadRequest(
        path=embedded_model,
        context_length=1 << 20,
        batch=64,
        threads=1,
        on_progress=lambda _done: True,
    )
    model = LlamaModel(request)
    trained = model.context_length
    model.close()
    assert trained < 1 << 20


def test_llama_cpps_errors_are_counted_but_not_kept_outside_a_load() -> None:
    before = log.errors
    log.write(ERROR_LEVEL, b"prompt words")
    assert log.errors == before + 1
    assert log.take_lines() == ""


async def test_a_reply_begins_with_the_opening_of_its_prompt(engine: LlamaEngine) -> None:
    opened = Prompt("You are a helpful assistant.", "What is a good soup?", opening="Marzipan and")
    assert (await reply_to(engine, opened)).startswith("Marzipan and ")


async def test_replies_to_apps_are_written_side_by_side(embedded_model: Path) -> None:
    """A short one is finished while a long one that began before it goes on."""
    engine = LlamaEngine(embedded_model, EngineSettings(context_length=1024, streams=2))
    engine.start()
    long = await begin(engine)
    assert await read(engine, 3)
    assert await anext(long)
    await long.aclose()
    await engine.close()


@pytest.mark.parametrize("streams", [0, 33])
def test_refuses_more_replies_side_by_side_than_a_call_has_room_for(streams: int) -> None:
    with pytest.raises(ValueError, match="side by side"):
        EngineSettings(streams=streams)


async def closes_during_a_draw(engine: LlamaEngine, *, cancelled: bool = False) -> bool:
    """Whether closing a group's reply waits for the draw that is under way then."""
    under_way, go_on = threading.Event(), threading.Event()
    draws = 0

    def draw(_logits: object) -> int:
        nonlocal draws
        if draws:
            under_way.set()
            go_on.wait(30)
        draws += 1
        return ORDINARY

    reply = engine.generate_group(Secret(GROUP), draw, max_tokens=20)
    await anext(reply)
    assert await asyncio.to_thread(under_way.wait, 30)
    async with asyncio.TaskGroup() as tasks:
        closing = tasks.create_task(reply.aclose(), name="closing")
        await settle()
        if cancelled:
            closing.cancel()
            await settle()
        waited = not closing.done()
        go_on.set()
    assert await read(engine, 1)
    return waited and draws == 2


@pytest.mark.parametrize("cancelled", [False, True])
async def test_closing_a_group_waits_for_the_draw_under_way(
    engine: LlamaEngine, cancelled: bool
) -> None:
    assert await closes_during_a_draw(engine, cancelled=cancelled)


async def test_mutant_that_does_not_wait_for_the_draw_is_caught(
    engine: LlamaEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def at_once(_request: Request) -> None:
        return

    monkeypatch.setattr(llama_engine, "_until_told", at_once)
    assert not await closes_during_a_draw(engine)
