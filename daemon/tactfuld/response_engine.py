"""The response model of a profile, as its settings want it.

Decides which file is loaded how, and what is looked at before llama.cpp sees it. What is *not*
here: when it is loaded and unloaded (`inference.residence`), what it is asked (the gate).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from tactful.profile import Profile
from tactfuld.clock import Clock
from tactfuld.inference.abort_note import keep_last_words, take_last_words
from tactfuld.inference.endpoint import Endpoint
from tactfuld.inference.engine import (
    Engine,
    EngineSettings,
    available_cores,
)
from tactfuld.inference.gpu_wait import built_for_gpu, wait_for_gpu
from tactfuld.inference.llama_engine import Check, LlamaEngine
from tactfuld.inference.offload import GpuUse
from tactfuld.inference.remote import Remote
from tactfuld.inference.residence import ResidenceRules, ResidentEngine, Surroundings
from tactfuld.inference.trial import Attempt, FirstLoads
from tactfuld.inference.weights_file import WeightsFile
from tactfuld.models.installed import model_file
from tactfuld.notices import Notices
from tactfuld.power import on_battery
from tactfuld.remote_key import remote_key
from tactfuld.settings import Settings

LAST_WORDS = "llama-last-words"
"""In the state folder: what llama.cpp said when it ended the daemon."""


@asynccontextmanager
async def response_engine(
    profile: Profile, settings: Settings, clock: Clock, notices: Notices
) -> AsyncIterator[ResidentEngine]:
    """The model on this machine, loading in the background; closed after the block."""
    path = await asyncio.to_thread(model_file, settings.model.use, profile.models)
    file = WeightsFile(path)
    words = await asyncio.to_thread(take_last_words, profile.state / LAST_WORDS)
    notices.replace("llama.cpp", words)
    make = _maker(profile, settings, file)
    around = Surroundings(clock, file, on_battery, built_for_gpu, notices.replace)
    engine = ResidentEngine(make, residence_rules(settings), around)
    engine.start()
    try:
        yield engine
    finally:
        await engine.close()


def remote_of(settings: Settings) -> Remote | None:
    """The endpoint that answers apps in place of the model on this machine, if there is one."""
    remote = settings.remote
    if remote.url is None or remote.model is None:
        return None
    host = urlsplit(remote.url).netloc
    endpoint = Endpoint(remote.url, remote.model, partial(remote_key, remote.key, host))
    return Remote(endpoint, float(remote.seconds), context=settings.model.context)


def residence_rules(settings: Settings) -> ResidenceRules:
    """When the model is in memory."""
    minutes = settings.model.idle_unload
    return ResidenceRules(
        settings.gpu,
        None if minutes is None else 60.0 * minutes,
        settings.model.pause_on_battery,
    )


def _maker(profile: Profile, settings: Settings, file: WeightsFile) -> Callable[[GpuUse], Engine]:
    """What makes an engine of the profile's model, every time that it is loaded."""
    model = settings.model
    threads = model.threads or available_cores()
    # A process that has loaded llama.cpp will not see a driver that comes up later.
    waits = iter([True])

    def make(gpu: GpuUse) -> Engine:
        attempt = Attempt(str(file.path), model.context, threads, gpu)
        how = EngineSettings(model.context, threads, streams=model.streams, gpu=gpu)
        return LlamaEngine(
            file.path, how, _first_look(profile, attempt, file, waits=next(waits, False))
        )

    return make


def _first_look(profile: Profile, attempt: Attempt, file: WeightsFile, *, waits: bool) -> Check:
    """A file that is new here is loaded by a child first, which may die of it."""
    loads = FirstLoads(profile.first_loads)

    def check(_path: Path, stopped: Callable[[], bool]) -> None:
        file.note()
        if waits:
            wait_for_gpu(attempt.gpu, stopped)
        loads.ensure(attempt, stopped)
        keep_last_words(profile.state / LAST_WORDS)

    return check
