"""The scripted engine keeps the contract of engines, and does what its script says."""

import asyncio

import pytest
from tests.tactfuld.inference.engine_contract import (
    MAX_WAITING,
    EngineContract,
    MakeEngine,
    read,
    settle,
)

from tactfuld.inference.engine import Engine
from tactfuld.inference.errors import EngineClosed
from tactfuld.inference.prompt import Prompt
from tactfuld.inference.scripted import ScriptedEngine


class TestScriptedEngine(EngineContract):
    """The contract, with a reply long enough never to end by itself."""

    @pytest.fixture
    def make_engine(self) -> MakeEngine:
        def make() -> Engine:
            return ScriptedEngine("word " * 500, max_waiting=MAX_WAITING)

        return make


async def test_replies_by_a_function_of_the_prompt() -> None:
    engine = ScriptedEngine(lambda prompt: f"You asked:\n  {prompt.user} ")
    engine.start()
    pieces = [piece async for piece in engine.generate(Prompt("s", "why so?"), max_tokens=9)]
    assert pieces == ["You ", "asked:\n  ", "why ", "so? "]
    assert engine.replies == 1


async def test_gate_holds_the_first_word() -> None:
    gate = asyncio.Event()
    engine = ScriptedEngine("at last", gate=gate)
    engine.start()
    async with asyncio.TaskGroup() as tasks:
        reader = tasks.create_task(read(engine, 5), name="reader")
        await settle()
        assert not reader.done()
        assert engine.replies == 0
        gate.set()
    assert reader.result() == ["at ", "last"]


async def test_close_ends_who_waits_at_the_gate() -> None:
    engine = ScriptedEngine("never", gate=asyncio.Event())
    engine.start()

    async def wait_in_vain() -> None:
        with pytest.raises(EngineClosed):
            await read(engine, 5)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(wait_in_vain(), name="reader")
        await settle()
        await engine.close()
    assert engine.replies == 0
