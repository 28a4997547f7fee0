"""The recording engine keeps the contract of engines, and its records."""

import pytest
from tests.fakes.recording_engine import RecordingEngine
from tests.tactfuld.inference.engine_contract import (
    MAX_WAITING,
    PROMPT,
    EngineContract,
    MakeEngine,
    begin,
    read,
)

from tactfuld.inference.engine import Engine, EngineState
from tactfuld.inference.errors import EngineBusy


class TestRecordingEngine(EngineContract):
    """The contract, with a reply long enough never to end by itself."""

    @pytest.fixture
    def make_engine(self) -> MakeEngine:
        def make() -> Engine:
            return RecordingEngine("word " * 500, max_waiting=MAX_WAITING)

        return make


async def test_records_what_it_was_prompted_with_and_what_has_ended() -> None:
    engine = RecordingEngine("Lentil soup.")
    engine.start()
    assert await read(engine, 5) == ["Lentil ", "soup."]
    reply = await begin(engine)
    assert engine.prompts == [PROMPT, PROMPT]
    assert engine.ended == 1
    await reply.aclose()
    assert engine.ended == 2


async def test_refused_replies_have_ended_too() -> None:
    engine = RecordingEngine(streams=0, max_waiting=0)
    engine.start()
    with pytest.raises(EngineBusy):
        await read(engine, 5)
    assert (len(engine.prompts), engine.ended) == (1, 1)


async def test_is_in_the_state_that_a_test_wants() -> None:
    engine = RecordingEngine()
    for state in EngineState:
        engine.enter(state)
        assert engine.state is state
