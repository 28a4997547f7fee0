"""The model is in memory when it is asked, and how long memory makes an answer take is no matter.

The engines behind it are scripted; `test_response_engine` has a real one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.fakes.daemon_site import until
from tests.fakes.manual_clock import ManualClock
from tests.tactfuld.inference.engine_contract import (
    LONG,
    MAX_WAITING,
    PROMPT,
    EngineContract,
    MakeEngine,
    begin,
    begin_as_owner,
    read,
    read_as_owner,
    settle,
)
from tests.tactfuld.inference.gpus import H200, ONE_GPU, PROCESSOR_ONLY

from tactful_core.values import Secret
from tactfuld.inference.engine import Engine, EngineState
from tactfuld.inference.errors import (
    DecodeFailed,
    EngineClosed,
    EngineLoading,
    EnginePaused,
    InferenceError,
    ModelError,
)
from tactfuld.inference.gpu_choice import MOST_LOSSES
from tactfuld.inference.offload import GpuUse, Offload
from tactfuld.inference.places import Place
from tactfuld.inference.prompt import Prompt
from tactfuld.inference.residence import (
    LOOK_SECONDS,
    RETRY_SECONDS,
    ResidenceRules,
    ResidentEngine,
    Surroundings,
)
from tactfuld.inference.scripted import ScriptedEngine
from tactfuld.inference.weights_file import Sign, WeightsFile

IDLE = 300.0
ON_GPU = Offload(ONE_GPU, 2, 2, (H200,))
ON_CPU = Offload(PROCESSOR_ONLY, 2, 0)


class FakeEngine(ScriptedEngine):
    """One load of the model, at the machine's mercy."""

    def __init__(self, machine: Machine, gpu: GpuUse) -> None:
        super().__init__("word " * 500, max_waiting=MAX_WAITING)
        self.machine = machine
        self.gpu = gpu
        self._failure: str | None = None

    @property
    def problem(self) -> str | None:
        return self._failure

    @property
    def offload(self) -> Offload | None:
        return self.machine.offload

    def start(self) -> None:
        self.machine.open.append(self)
        self.machine.most_open = max(self.machine.most_open, len(self.machine.open))
        self.machine.file.note()
        refusal = self.machine.refusal
        if self.gpu != "off" and self.machine.gpu_refusal is not None:
            refusal = self.machine.gpu_refusal
        if refusal is not None:
            self._state, self._failure = EngineState.FAILED, refusal
            self._started.set()
        elif self.machine.loads:
            super().start()

    def finish_loading(self) -> None:
        super().start()

    async def ready(self, seconds: float, /) -> None:
        await super().ready(seconds)
        if self._failure is not None:
            raise ModelError(self._failure)

    async def generate(
        self, prompt: Prompt, *, max_tokens: int, place: Place | None = None
    ) -> AsyncGenerator[str, None]:
        reply = super().generate(prompt, max_tokens=max_tokens, place=place)
        async with aclosing(reply) as words:
            async for word in words:
                if self.machine.decode is not None:
                    raise self.machine.decode
                yield word

    async def close(self) -> None:
        await self.machine.may_close.wait()
        await super().close()
        if self in self.machine.open:
            self.machine.open.remove(self)


class FakeFile(WeightsFile):
    """A file that is like `now`; empty while there is none."""

    def __init__(self) -> None:
        super().__init__(Path("/models/toy.gguf"))
        self.now: Sign = (1,)

    def sign(self) -> Sign:
        return self.now


@dataclass(eq=False)
class Machine:
    """What a resident engine stands in.

    Attributes:
        loads: whether what is started is loaded at once.
        refusal: why nothing can be loaded.
        gpu_refusal: why nothing can be loaded on the GPU.
        decode: what llama.cpp fails with while it answers.
        open: engines that hold weights.
        told: what the owner is to know now, by subject.
    """

    file: FakeFile = field(default_factory=FakeFile)
    rules: ResidenceRules = field(default_factory=ResidenceRules)
    clock: ManualClock = field(default_factory=ManualClock)
    battery: bool = False
    gpu_built: bool = False
    loads: bool = True
    refusal: str | None = None
    gpu_refusal: str | None = None
    decode: InferenceError | None = None
    offload: Offload = ON_CPU
    open: list[FakeEngine] = field(default_factory=list)
    most_open: int = 0
    made: list[GpuUse] = field(default_factory=list)
    told: dict[str, str] = field(default_factory=dict)
    battery_asked: int = 0
    may_close: asyncio.Event = field(default_factory=asyncio.Event)

    def engine(self, kind: type[ResidentEngine] = ResidentEngine) -> ResidentEngine:
        self.may_close.set()
        around = Surroundings(
            self.clock, self.file, self.on_battery, lambda: self.gpu_built, self.tell
        )
        return kind(self.make, self.rules, around)

    def make(self, gpu: GpuUse) -> Engine:
        self.made.append(gpu)
        return FakeEngine(self, gpu)

    def on_battery(self) -> bool:
        self.battery_asked += 1
        return self.battery

    def tell(self, subject: str, sentence: str | None) -> None:
        self.told.pop(subject, None)
        if sentence is not None:
            self.told[subject] = sentence


@pytest.fixture
def machine() -> Machine:
    return Machine(rules=ResidenceRules(idle_seconds=IDLE))


@pytest.fixture
async def resident(machine: Machine) -> AsyncGenerator[ResidentEngine, None]:
    engine = machine.engine()
    engine.start()
    await engine.ready(5)
    yield engine
    machine.may_close.set()
    await engine.close()


def assert_is(engine: Engine, state: EngineState) -> None:
    """A function, because a type checker believes that a state once seen stays."""
    assert engine.state is state


async def wait_idle(machine: Machine, engine: ResidentEngine, seconds: float = IDLE) -> None:
    machine.clock.advance(seconds)
    await engine.look()


class TestResidentEngine(EngineContract):
    """It keeps the contract of what it makes."""

    @pytest.fixture
    def make_engine(self, machine: Machine) -> MakeEngine:
        return machine.engine


async def test_sleeps_when_nobody_asked_for_so_long(
    machine: Machine, resident: ResidentEngine
) -> None:
    await wait_idle(machine, resident, IDLE - 1)
    assert_is(resident, EngineState.READY)
    await wait_idle(machine, resident, 1)
    assert_is(resident, EngineState.ASLEEP)
    assert machine.open == []
    assert (resident.load_progress, resident.offload, resident.memory) == (0.0, None, None)


async def test_next_question_loads_it_again_and_is_answered(
    machine: Machine, resident: ResidentEngine
) -> None:
    await wait_idle(machine, resident)
    await resident.admit()
    assert_is(resident, EngineState.READY)
    assert await read(resident, 2)
    assert machine.made == ["auto", "auto"]


async def test_a_question_that_nobody_admitted_loads_it_too(
    machine: Machine, resident: ResidentEngine
) -> None:
    await wait_idle(machine, resident)
    assert await read(resident, 2)


async def test_all_who_ask_while_it_is_loaded_again_wait_and_are_admitted(
    machine: Machine, resident: ResidentEngine
) -> None:
    await wait_idle(machine, resident)
    machine.loads = False
    async with asyncio.TaskGroup() as tasks:
        asking = [tasks.create_task(resident.admit(), name=f"app {n}") for n in range(3)]
        await until(lambda: bool(machine.open))
        await settle()
        assert_is(resident, EngineState.LOADING)
        assert not any(task.done() for task in asking)
        machine.open[0].finish_loading()
    assert machine.made == ["auto", "auto"]


async def test_the_first_load_is_not_waited_for(machine: Machine) -> None:
    machine.loads = False
    engine = machine.engine()
    engine.start()
    with pytest.raises(EngineLoading):
        await engine.admit()
    await engine.close()


async def test_a_model_without_the_setting_stays(machine: Machine) -> None:
    machine.rules = ResidenceRules()
    engine = machine.engine()
    engine.start()
    await wait_idle(machine, engine, 10**6)
    assert_is(engine, EngineState.READY)
    engine.change_rules(ResidenceRules(idle_seconds=IDLE))
    await engine.look()
    assert_is(engine, EngineState.ASLEEP)
    await engine.close()


async def test_what_an_app_is_being_answered_is_not_cut(
    machine: Machine, resident: ResidentEngine
) -> None:
    reply = await begin(resident)
    await wait_idle(machine, resident)
    assert await anext(reply)
    await reply.aclose()
    await resident.look()
    assert_is(resident, EngineState.READY)  # the time counts from the end of an app's answer
    await wait_idle(machine, resident)
    assert_is(resident, EngineState.ASLEEP)


async def test_a_load_that_takes_longer_than_the_time_is_still_used(
    machine: Machine, resident: ResidentEngine
) -> None:
    await wait_idle(machine, resident)
    machine.loads = False
    async with asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(resident.admit(), name="app")
        await until(lambda: bool(machine.open))
        machine.clock.advance(2 * IDLE)
        machine.open[0].finish_loading()
        await resident.look()
        await asking
    await resident.look()
    assert_is(resident, EngineState.READY)


async def slept_after(machine: Machine, resident: ResidentEngine, answer: int, reads: int) -> float:
    """Seconds from a question of the owner's to the model's sleep.

    The answer has so many words, of one second each, and memory is measured so many times first,
    which takes a second each.
    """
    await resident.admit(owner=True)
    asked = machine.clock.time
    for _ in range(reads):
        machine.clock.advance(1)
        await resident.room(Secret(PROMPT), max_tokens=1)
    reply = resident.generate_for_owner(Secret(PROMPT), max_tokens=answer)
    with suppress(ModelError):
        async with aclosing(reply):
            async for _ in reply:
                machine.clock.advance(1)
                await resident.look()
    while resident.state is EngineState.READY and machine.clock.time < asked + 3 * IDLE:
        machine.clock.advance(1)
        await resident.look()
    return machine.clock.time - asked


ANSWERS = [(1, 1), (1, 50), (200, 1), (400, 9)]


@pytest.mark.parametrize(("answer", "reads"), ANSWERS)
async def test_how_long_the_owners_answer_is_changes_nothing_for_apps(
    machine: Machine, resident: ResidentEngine, answer: int, reads: int
) -> None:
    """An attack: an app asks now and then, and learns from a slow first answer what the owner got.

    The model goes to sleep at the same moment whatever the owner was answered from memory.
    """
    assert await slept_after(machine, resident, answer, reads) == IDLE


class CountsFromTheEnd(ResidentEngine):
    """A mutant: it is idle from the end of the owner's answer on."""

    async def generate_for_owner(
        self, prompt: Secret[Prompt], *, max_tokens: int
    ) -> AsyncGenerator[str, None]:
        try:
            reply = super().generate_for_owner(prompt, max_tokens=max_tokens)
            async with aclosing(reply):
                async for piece in reply:
                    yield piece
        finally:
            self._touch()


class CountsEveryUse(ResidentEngine):
    """A mutant: measuring how much of memory fits counts as being asked."""

    async def room(self, prompt: Secret[Prompt], *, max_tokens: int) -> int:
        self._touch()
        return await super().room(prompt, max_tokens=max_tokens)


class WaitsForTheOwner(ResidentEngine):
    """A mutant: what the owner is being answered is not cut."""

    async def generate_for_owner(
        self, prompt: Secret[Prompt], *, max_tokens: int
    ) -> AsyncGenerator[str, None]:
        self._answering_apps += 1
        try:
            reply = super().generate_for_owner(prompt, max_tokens=max_tokens)
            async with aclosing(reply):
                async for piece in reply:
                    yield piece
        finally:
            self._answering_apps -= 1


@pytest.mark.parametrize("mutant", [CountsFromTheEnd, CountsEveryUse, WaitsForTheOwner])
async def test_the_attack_finds_a_model_whose_sleep_depends_on_memory(
    machine: Machine, mutant: type[ResidentEngine]
) -> None:
    moments = set()
    for answer, reads in ANSWERS:
        engine = machine.engine(mutant)
        engine.start()
        moments.add(await slept_after(machine, engine, answer, reads))
        await engine.close()
    assert len(moments) > 1


async def test_an_answer_to_the_owner_that_is_ended_says_what_to_do(
    machine: Machine, resident: ResidentEngine
) -> None:
    owners = await begin_as_owner(resident)
    await wait_idle(machine, resident)
    with pytest.raises(ModelError, match="idle_unload"):
        [piece async for piece in owners]


async def test_at_most_one_engine_holds_weights(machine: Machine, resident: ResidentEngine) -> None:
    machine.may_close.clear()
    machine.clock.advance(IDLE)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(resident.look(), name="look")
        await until(lambda: resident.state is EngineState.ASLEEP)
        asking = tasks.create_task(resident.admit(), name="app")
        await settle()
        assert not asking.done()
        machine.may_close.set()
    assert machine.most_open == 1
    assert await read(resident, 1)


async def test_close_ends_those_who_wait_for_the_load(
    machine: Machine, resident: ResidentEngine
) -> None:
    await wait_idle(machine, resident)
    machine.loads = False

    async def ask_in_vain() -> None:
        with pytest.raises(EngineClosed):
            await resident.admit()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(ask_in_vain(), name="app")
        await until(lambda: bool(machine.open))
        await resident.close()
    assert machine.open == []


async def test_a_model_that_cannot_be_loaded_again_is_tried_again_later(
    machine: Machine, resident: ResidentEngine
) -> None:
    await wait_idle(machine, resident)
    machine.refusal = "It does not fit into memory."
    for _ in range(3):
        with pytest.raises(ModelError, match="does not fit"):
            await resident.admit()
    assert (resident.state, resident.problem) == (EngineState.FAILED, machine.refusal)
    assert len(machine.made) == 2, "not with every question"
    machine.refusal = None
    machine.clock.advance(RETRY_SECONDS)
    await resident.admit()
    assert await read(resident, 1)
    assert machine.most_open == 1


# ---- battery


@pytest.fixture
async def saving(machine: Machine, resident: ResidentEngine) -> ResidentEngine:
    resident.change_rules(ResidenceRules(pause_on_battery=True))
    return resident


async def test_apps_are_refused_on_battery_and_the_owner_is_told_and_answered(
    machine: Machine, saving: ResidentEngine
) -> None:
    machine.battery = True
    await saving.look()
    assert_is(saving, EngineState.PAUSED)
    with pytest.raises(EnginePaused, match="battery"):
        await saving.admit()
    assert "pause_on_battery" in machine.told["battery"]
    await saving.admit(owner=True)
    assert await read_as_owner(saving, 2)


async def test_plugged_in_again_all_is_as_before(machine: Machine, saving: ResidentEngine) -> None:
    machine.battery = True
    await saving.look()
    machine.battery = False
    await saving.look()
    await saving.admit()
    assert "battery" not in machine.told


async def test_an_answer_that_has_begun_is_finished_on_battery(
    machine: Machine, saving: ResidentEngine
) -> None:
    reply = await begin(saving)
    machine.battery = True
    await saving.look()
    assert await anext(reply)
    await reply.aclose()


async def test_nobody_asks_for_the_battery_unless_it_is_wanted(
    machine: Machine, resident: ResidentEngine
) -> None:
    machine.battery = True
    await resident.look()
    assert machine.battery_asked == 0
    await resident.admit()


async def test_a_model_that_sleeps_on_battery_is_loaded_for_the_owner(
    machine: Machine, resident: ResidentEngine
) -> None:
    resident.change_rules(ResidenceRules(idle_seconds=IDLE, pause_on_battery=True))
    machine.battery = True
    await wait_idle(machine, resident)
    with pytest.raises(EnginePaused):
        await resident.admit()
    assert machine.open == []
    await resident.admit(owner=True)
    assert await read_as_owner(resident, 1)


# ---- the file


async def test_a_file_that_was_replaced_is_told_until_it_is_loaded(
    machine: Machine, resident: ResidentEngine
) -> None:
    await resident.look()
    assert "model file" not in machine.told
    machine.file.now = (2,)
    await resident.look()
    assert "is not the one that was loaded" in machine.told["model file"]
    assert await read(resident, 1)
    await wait_idle(machine, resident)
    await resident.admit()
    await resident.look()
    assert "model file" not in machine.told


async def test_a_file_that_is_gone_is_told(machine: Machine, resident: ResidentEngine) -> None:
    machine.file.now = ()
    await resident.look()
    assert "is gone" in machine.told["model file"]
    assert await read(resident, 1)


async def test_a_file_that_comes_after_a_failed_load_is_loaded_once_it_is_whole(
    machine: Machine,
) -> None:
    machine.refusal = "There is no such file."
    machine.file.now = ()
    engine = machine.engine()
    engine.start()
    await engine.look()
    assert_is(engine, EngineState.FAILED)
    machine.refusal = None
    machine.file.now = (3,)
    await engine.look()
    machine.file.now = (4,)
    await engine.look()
    assert len(machine.made) == 1, "somebody is still writing to it"
    await engine.look()
    assert_is(engine, EngineState.READY)
    await engine.admit()
    await engine.close()


async def test_a_file_that_cannot_be_loaded_is_not_tried_for_ever(machine: Machine) -> None:
    machine.refusal = "It is damaged."
    engine = machine.engine()
    engine.start()
    for _ in range(5):
        await engine.look()
    assert len(machine.made) == 1
    await engine.close()


# ---- a GPU that is lost


async def lose(machine: Machine, resident: ResidentEngine, code: int = -3) -> None:
    machine.decode = DecodeFailed(code)
    with pytest.raises(DecodeFailed):
        await read(resident, 2)
    machine.decode = None


async def test_a_lost_gpu_is_told_and_the_model_loaded_again(
    machine: Machine, resident: ResidentEngine
) -> None:
    machine.offload = ON_GPU
    await lose(machine, resident)
    assert "CUDA0 (NVIDIA H200)" in machine.told["gpu"]
    assert await read(resident, 2)
    assert machine.made == ["auto", "auto"]
    assert machine.most_open == 1


async def test_a_gpu_that_is_lost_again_and_again_gives_way_to_the_processor(
    machine: Machine, resident: ResidentEngine
) -> None:
    machine.offload = ON_GPU
    for _ in range(MOST_LOSSES):
        await lose(machine, resident)
    assert await read(resident, 2)
    assert machine.made[-1] == "off"
    assert "works on the processor" in machine.told["gpu"]


async def test_a_required_gpu_that_is_lost_again_and_again_is_a_failure(machine: Machine) -> None:
    machine.rules, machine.offload = ResidenceRules("required"), ON_GPU
    engine = machine.engine()
    engine.start()
    for _ in range(MOST_LOSSES):
        await lose(machine, engine)
    with pytest.raises(ModelError, match="third time"):
        await engine.admit()
    assert_is(engine, EngineState.FAILED)
    assert set(machine.made) == {"required"}
    await engine.close()


async def test_an_answer_in_between_shows_that_the_gpu_is_back(
    machine: Machine, resident: ResidentEngine
) -> None:
    machine.offload = ON_GPU
    for _ in range(MOST_LOSSES + 1):
        await lose(machine, resident)
        assert await read(resident, 2)
    assert machine.made == ["auto"] * (MOST_LOSSES + 2)


@pytest.mark.parametrize(("code", "where"), [(-3, ON_CPU), (1, ON_GPU), (2, ON_GPU), (-1, ON_GPU)])
async def test_other_failures_are_no_lost_gpu(
    machine: Machine, resident: ResidentEngine, code: int, where: Offload
) -> None:
    machine.offload = where
    await lose(machine, resident, code)
    assert "gpu" not in machine.told
    assert await read(resident, 1)
    assert len(machine.made) == 1


async def test_what_does_not_fit_the_gpu_is_loaded_on_the_processor(machine: Machine) -> None:
    machine.gpu_built, machine.gpu_refusal = True, "There is no room on the GPU."
    engine = machine.engine()
    engine.start()
    await engine.look()
    assert machine.made == ["auto", "off"]
    await engine.admit()
    assert await read(engine, 1)
    await engine.look()
    assert "works on the processor until the next start. There is no room" in machine.told["gpu"]
    await engine.close()


@pytest.mark.parametrize("use", ["required", "off"])
async def test_only_auto_goes_without_a_gpu(machine: Machine, use: GpuUse) -> None:
    machine.rules = ResidenceRules(use)
    machine.gpu_built, machine.refusal = True, "It is damaged."
    engine = machine.engine()
    engine.start()
    for _ in range(3):
        await engine.look()
    assert machine.made == [use]
    await engine.close()


async def test_a_file_that_cannot_be_loaded_at_all_is_tried_once_on_each(machine: Machine) -> None:
    machine.gpu_built, machine.refusal = True, "It is damaged."
    engine = machine.engine()
    engine.start()
    for _ in range(5):
        await engine.look()
    assert machine.made == ["auto", "off"]
    assert "gpu" not in machine.told
    machine.refusal, machine.file.now = None, (5,)
    for _ in range(2):
        await engine.look()
    assert machine.made == ["auto", "off", "auto"]
    await engine.admit()
    await engine.close()


async def test_looks_again_and_again(machine: Machine) -> None:
    engine = machine.engine()
    engine.start()
    async with asyncio.TaskGroup() as tasks:
        looking = tasks.create_task(engine.run(), name="residence")
        assert await machine.clock.asleep() == machine.clock.time + LOOK_SECONDS
        machine.clock.advance(IDLE)
        await until(lambda: engine.state is EngineState.ASLEEP)
        looking.cancel()
    await engine.close()


async def test_owner_and_apps_go_on_across_loads(
    machine: Machine, resident: ResidentEngine
) -> None:
    for _ in range(3):
        await wait_idle(machine, resident)
        owners = await begin_as_owner(resident)
        assert await read(resident, 3)
        await owners.aclose()
        reply = resident.generate(PROMPT, max_tokens=LONG)
        assert await anext(reply)
        await reply.aclose()
    assert machine.most_open == 1
