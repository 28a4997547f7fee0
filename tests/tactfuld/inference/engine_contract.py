"""What every `Engine` keeps; run against the real one and the scripted one."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing

import numpy as np
import numpy.typing as npt
import pytest

from tactful_core.values import Secret
from tactfuld.inference.chat_template import Vocabulary
from tactfuld.inference.engine import Engine, EngineState
from tactfuld.inference.errors import EngineBusy, EngineClosed, EngineLoading, PromptTooLong
from tactfuld.inference.groups import SequenceGroup
from tactfuld.inference.prompt import EarlierTurn, Prompt
from tactfuld.inference.requests import Source

PROMPT = Prompt("You are a helpful assistant.", "Count from one to one hundred in words.")
MAX_WAITING = 2
# An id that any vocabulary has, and that is written as text.
ORDINARY = 40
GROUP = SequenceGroup(((1, 2, 3, 4, 5), (1, 2, 3, 9, 9), (1, 2, 3, 7, 8)), shared=3)
# Replies that must still run when the test looks are this long; it never reads them to the end.
LONG = 400

MakeEngine = Callable[[], Engine]


async def read(engine: Engine, max_tokens: int) -> list[str]:
    return [piece async for piece in engine.generate(PROMPT, max_tokens=max_tokens)]


async def read_as_owner(engine: Engine, max_tokens: int) -> list[str]:
    reply = engine.generate_for_owner(Secret(PROMPT), max_tokens=max_tokens)
    return [piece async for piece in reply]


async def begin_as_owner(engine: Engine) -> AsyncGenerator[str, None]:
    """The same for the owner, as long as no app asks."""
    reply = engine.generate_for_owner(Secret(PROMPT), max_tokens=LONG)
    await anext(reply)
    return reply


async def begin(engine: Engine) -> AsyncGenerator[str, None]:
    """Return a long reply that has begun and occupies the engine until it is closed."""
    reply = engine.generate(PROMPT, max_tokens=LONG)
    await anext(reply)
    return reply


async def settle() -> None:
    """Let tasks made just now take their place in the queue."""
    for _ in range(3):
        await asyncio.sleep(0)


class EngineContract:
    """Subclasses give `make_engine`: a new engine with `MAX_WAITING`, not started."""

    @pytest.fixture
    async def engine(self, make_engine: MakeEngine) -> AsyncGenerator[Engine, None]:
        engine = make_engine()
        engine.start()
        await engine.ready(50)
        yield engine
        await engine.close()

    async def test_is_ready_and_wholly_loaded_after_ready(self, engine: Engine) -> None:
        assert (engine.state, engine.load_progress, engine.problem) == ("ready", 1.0, None)
        assert engine.name

    async def test_is_loading_before_start(self, make_engine: MakeEngine) -> None:
        engine = make_engine()
        assert engine.state is EngineState.LOADING
        assert engine.load_progress == 0.0
        await engine.close()

    async def test_admits_when_it_is_ready_and_says_why_not_before_and_after(
        self, make_engine: MakeEngine
    ) -> None:
        engine = make_engine()
        with pytest.raises(EngineLoading, match="still loading, 0%"):
            await engine.admit()
        engine.start()
        await engine.ready(50)
        await engine.admit()
        await engine.admit(owner=True)
        await engine.close()
        with pytest.raises(EngineClosed):
            await engine.admit()

    async def test_ready_gives_up_after_its_time(self, make_engine: MakeEngine) -> None:
        engine = make_engine()
        with pytest.raises(TimeoutError):
            await engine.ready(0)
        await engine.close()

    async def test_streams_a_reply_in_pieces_none_of_them_empty(self, engine: Engine) -> None:
        pieces = await read(engine, 8)
        assert len(pieces) > 1
        assert all(pieces)

    async def test_gives_at_most_the_tokens_asked_for(self, engine: Engine) -> None:
        assert 1 <= len(await read(engine, 3)) <= 3

    async def test_refuses_a_reply_of_no_tokens(self, engine: Engine) -> None:
        with pytest.raises(ValueError, match="max_tokens is 0"):
            await read(engine, 0)

    async def test_closing_a_reply_lets_the_next_be_served(self, engine: Engine) -> None:
        reply = await begin(engine)
        await reply.aclose()
        assert await read(engine, 2)

    async def test_cancelling_a_reader_lets_the_next_be_served(self, engine: Engine) -> None:
        first_piece = asyncio.Event()

        async def read_on() -> None:
            async with aclosing(engine.generate(PROMPT, max_tokens=LONG)) as reply:
                async for _ in reply:
                    first_piece.set()

        async with asyncio.TaskGroup() as tasks:
            reader = tasks.create_task(read_on(), name="reader")
            await first_piece.wait()
            reader.cancel()
        assert reader.cancelled()
        assert await read(engine, 2)

    async def test_waiting_requests_are_served_in_order(self, engine: Engine) -> None:
        served: list[int] = []

        async def ask(number: int) -> None:
            await read(engine, 1)
            served.append(number)

        reply = await begin(engine)
        async with asyncio.TaskGroup() as tasks:
            for number in range(MAX_WAITING):
                tasks.create_task(ask(number), name=f"request {number}")
            await settle()
            await reply.aclose()
        assert served == list(range(MAX_WAITING))

    async def test_says_busy_when_the_queue_is_full(self, engine: Engine) -> None:
        reply = await begin(engine)
        async with asyncio.TaskGroup() as tasks:
            for number in range(MAX_WAITING):
                tasks.create_task(read(engine, 1), name=f"request {number}")
            await settle()
            with pytest.raises(EngineBusy, match=f"{1 + MAX_WAITING} requests wait"):
                await read(engine, 1)
            await reply.aclose()

    async def test_a_place_is_refused_because_of_the_apps_own_requests_alone(
        self, engine: Engine
    ) -> None:
        async with AsyncExitStack() as held:
            for _ in range(1 + MAX_WAITING):
                await held.enter_async_context(engine.place(Source("greedy")))
            with pytest.raises(EngineBusy):
                await held.enter_async_context(engine.place(Source("greedy", "a thread")))
            async with engine.place(Source("other")) as place:
                reply = engine.generate(PROMPT, max_tokens=2, place=place)
                assert [piece async for piece in reply]
        async with engine.place(Source("greedy")):
            pass

    async def test_a_reply_in_a_place_takes_no_other(self, engine: Engine) -> None:
        async with AsyncExitStack() as held:
            places = [
                await held.enter_async_context(engine.place(Source("app")))
                for _ in range(1 + MAX_WAITING)
            ]
            for place in places:
                reply = engine.generate(PROMPT, max_tokens=1, place=place)
                assert [piece async for piece in reply]

    async def test_gives_no_place_once_closed(self, engine: Engine) -> None:
        await engine.close()
        with pytest.raises(EngineClosed):
            async with engine.place():
                pass

    async def test_a_vocabulary_says_before_a_question_whether_it_fits(
        self, engine: Engine
    ) -> None:
        def counted(vocabulary: Vocabulary) -> int:
            return len(vocabulary.encode(PROMPT, max_tokens=10))

        length = await engine.with_vocabulary(lambda vocabulary: vocabulary.context_length)
        room = await engine.room(Secret(PROMPT), max_tokens=10)
        assert await engine.with_vocabulary(counted) == length - room - 10
        longer = Prompt("", "marzipan " * 3000)
        with pytest.raises(PromptTooLong):
            await engine.with_vocabulary(lambda words: words.encode(longer, max_tokens=1))

    async def test_a_group_is_drawn_token_by_token_from_all_its_rows(self, engine: Engine) -> None:
        seen: list[tuple[int, ...]] = []

        def draw(logits: npt.NDArray[np.float32]) -> int:
            seen.append(logits.shape)
            return ORDINARY

        reply = engine.generate_group(Secret(GROUP), draw, max_tokens=4)
        pieces = [piece async for piece in reply]
        assert len(pieces) == 4
        assert all(pieces)
        assert len(set(seen)) == 1
        assert len(seen) == 4
        assert seen[0][0] == len(GROUP.rows)

    async def test_nothing_is_drawn_for_a_group_that_was_closed(self, engine: Engine) -> None:
        draws = 0

        def draw(_logits: npt.NDArray[np.float32]) -> int:
            nonlocal draws
            draws += 1
            return ORDINARY

        reply = engine.generate_group(Secret(GROUP), draw, max_tokens=LONG)
        await anext(reply)
        await reply.aclose()
        at_close = draws
        assert await read(engine, 3)
        assert draws == at_close

    async def test_a_group_ends_with_its_place(self, engine: Engine) -> None:
        async with engine.place(Source("app")) as place:
            reply = engine.generate_group(
                Secret(GROUP), lambda _: ORDINARY, max_tokens=2, place=place
            )
            assert len([piece async for piece in reply]) == 2

    async def test_refuses_a_group_that_does_not_fit(self, engine: Engine) -> None:
        long = SequenceGroup(((ORDINARY,) * 3000, (ORDINARY,) * 3000))
        with pytest.raises(PromptTooLong):
            await anext(engine.generate_group(Secret(long), lambda _: ORDINARY, max_tokens=7))
        assert await read(engine, 1)

    async def test_a_cancelled_waiting_request_frees_its_place(self, engine: Engine) -> None:
        reply = await begin(engine)
        async with asyncio.TaskGroup() as tasks:
            waiting = [
                tasks.create_task(read(engine, 1), name=f"request {number}")
                for number in range(MAX_WAITING)
            ]
            await settle()
            waiting[0].cancel()
            await settle()
            late = tasks.create_task(read(engine, 1), name="late request")
            await settle()
            await reply.aclose()
        assert waiting[0].cancelled()
        assert late.result()

    async def test_close_ends_running_and_waiting_requests(self, engine: Engine) -> None:
        reply = await begin(engine)

        async def wait_in_vain() -> None:
            with pytest.raises(EngineClosed):
                await read(engine, 1)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(wait_in_vain(), name="waiting request")
            await settle()
            await engine.close()
        with pytest.raises(EngineClosed):
            async for _ in reply:
                pass

    async def test_close_ends_requests_that_waited_for_the_load(
        self, make_engine: MakeEngine
    ) -> None:
        engine = make_engine()

        async def wait_in_vain() -> None:
            with pytest.raises(EngineClosed):
                await read(engine, 1)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(wait_in_vain(), name="early request")
            await settle()
            await engine.close()

    async def test_refuses_everything_once_closed(self, engine: Engine) -> None:
        await engine.close()
        await engine.close()
        assert engine.state == "closed"
        with pytest.raises(EngineClosed):
            await read(engine, 1)
        with pytest.raises(EngineClosed):
            await engine.ready(5)
        with pytest.raises(EngineClosed):
            await engine.count_tokens("words")

    async def test_a_request_made_while_loading_is_served_afterwards(
        self, make_engine: MakeEngine
    ) -> None:
        engine = make_engine()
        async with asyncio.TaskGroup() as tasks:
            early = tasks.create_task(read(engine, 2), name="early request")
            await settle()
            engine.start()
        assert early.result()
        await engine.close()

    async def test_refuses_what_does_not_fit_with_numbers_only(self, engine: Engine) -> None:
        prompt = Prompt("", "marzipan " * 3000)
        with pytest.raises(PromptTooLong) as caught:
            await anext(engine.generate(prompt, max_tokens=7))
        assert caught.value.prompt_tokens >= 3000
        assert caught.value.reply_tokens == 7
        assert "marzipan" not in str(caught.value)

    async def test_earlier_turns_that_do_not_fit_are_left_out(self, engine: Engine) -> None:
        long = EarlierTurn("marzipan " * 3000, "marzipan")
        prompt = Prompt("Be brief.", "Count to ten.", (long, EarlierTurn("Why?", "So.")))
        assert [piece async for piece in engine.generate(prompt, max_tokens=1)]

    async def test_counts_the_tokens_of_a_text(self, engine: Engine) -> None:
        assert await engine.count_tokens("") == 0
        assert await engine.count_tokens("three plain words") == 3

    async def test_room_is_what_prompt_and_reply_leave_of_the_context(self, engine: Engine) -> None:
        room = await engine.room(Secret(PROMPT), max_tokens=10)
        assert await engine.room(Secret(PROMPT), max_tokens=110) == room - 100
        assert await read(engine, 1)
        longer = Prompt(PROMPT.system, "marzipan " * 3000)
        assert await engine.room(Secret(longer), max_tokens=10) <= room - 2900

    async def test_reply_that_leaves_no_room_fits_and_one_token_more_does_not(
        self, engine: Engine
    ) -> None:
        most = await engine.room(Secret(PROMPT), max_tokens=0)
        reply = engine.generate(PROMPT, max_tokens=most)
        assert await anext(reply)
        await reply.aclose()
        with pytest.raises(PromptTooLong):
            await anext(engine.generate(PROMPT, max_tokens=most + 1))

    async def test_owner_gets_a_reply_in_pieces(self, engine: Engine) -> None:
        pieces = await read_as_owner(engine, 8)
        assert 1 < len(pieces) <= 8
        assert all(pieces)

    async def test_app_is_served_while_the_owners_reply_runs(self, engine: Engine) -> None:
        owners = await begin_as_owner(engine)
        assert await read(engine, 3)
        assert await anext(owners)
        await owners.aclose()

    async def test_owners_reply_waits_until_no_app_asks(self, engine: Engine) -> None:
        apps = await begin(engine)
        async with asyncio.TaskGroup() as tasks:
            owners = tasks.create_task(read_as_owner(engine, 2), name="owner")
            await settle()
            assert not owners.done()
            await apps.aclose()
        assert owners.result()

    async def test_no_app_is_refused_because_the_owner_asks(self, engine: Engine) -> None:
        owners = await begin_as_owner(engine)
        async with asyncio.TaskGroup() as tasks:
            waiting = [
                tasks.create_task(read_as_owner(engine, 1), name=f"owner {number}")
                for number in range(MAX_WAITING)
            ]
            await settle()
            with pytest.raises(EngineBusy):
                await read_as_owner(engine, 1)
            assert await read(engine, 1)
            await owners.aclose()
        assert all(task.result() for task in waiting)

    async def test_cancelled_owner_leaves_nothing_behind(self, engine: Engine) -> None:
        apps = await begin(engine)
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(read_as_owner(engine, 1), name="owner")
            await settle()
            waiting.cancel()
        await apps.aclose()
        assert await read(engine, 1)
        assert await read_as_owner(engine, 1)

    async def test_close_ends_the_owners_replies(self, engine: Engine) -> None:
        owners = await begin_as_owner(engine)
        apps = await begin(engine)
        await engine.close()
        for reply in (owners, apps):
            with pytest.raises(EngineClosed):
                async for _ in reply:
                    pass
        with pytest.raises(EngineClosed):
            await read_as_owner(engine, 1)
        with pytest.raises(EngineClosed):
            await engine.room(Secret(PROMPT), max_tokens=1)

    async def test_owners_question_that_does_not_fit_is_refused(self, engine: Engine) -> None:
        prompt = Secret(Prompt("", "marzipan " * 3000))
        with pytest.raises(PromptTooLong):
            await anext(engine.generate_for_owner(prompt, max_tokens=7))
        assert await read_as_owner(engine, 1)
