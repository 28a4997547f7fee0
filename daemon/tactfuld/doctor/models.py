"""The response model and what it works on: `model`, `gpu`, `remote`.

Decides what is said about them before a model is loaded, and from a running engine. What is *not*
here: what makes a file loadable (`tactfuld.inference`).

llama.cpp is asked in a process of its own: one that was built for another processor ends whichever
process loads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tactful.profile import Profile
from tactfuld.doctor.check import Check, Name, not_applicable, ok, problem, unknown
from tactfuld.inference.engine import available_cores
from tactfuld.inference.errors import ModelError, RemoteFailed
from tactfuld.inference.footprint import preflight
from tactfuld.inference.gpu_wait import Asked, ask_llama_cpp
from tactfuld.inference.offload import GpuSupport, GpuUse, Offload, gives_layers
from tactfuld.inference.trial import Attempt, FirstLoads
from tactfuld.models.installed import model_file
from tactfuld.remote_key import remote_key, store_command
from tactfuld.settings import Settings

_INSTALL = "`tactful model list` shows what there is; `tactful model install` gets one."


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The model file that the settings name.

    Attributes:
        refusal: why it could not be loaded, as far as that shows without loading it.
        loaded_before: whether this file was once loaded on this machine.
    """

    file: Path
    present: bool
    refusal: str = ""
    loaded_before: bool = False


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """What the settings want, and what llama.cpp itself says."""

    use: GpuUse
    asked: Asked


def model_facts(profile: Profile, settings: Settings) -> ModelFacts:
    """Looks at the file; blocks."""
    file = model_file(settings.model.use, profile.models)
    if not file.is_file():
        return ModelFacts(file, present=False)
    threads = settings.model.threads or available_cores()
    attempt = Attempt(str(file), settings.model.context, threads, settings.gpu)
    try:
        preflight(file, settings.model.context)
        return ModelFacts(
            file, present=True, loaded_before=FirstLoads(profile.first_loads).passed(attempt)
        )
    except ModelError as refused:
        return ModelFacts(file, present=True, refusal=str(refused))


def check_model(found: ModelFacts) -> Check:
    """The model can be loaded, as far as that shows beforehand."""
    if not found.present:
        return problem(Name.MODEL, f"There is no model file {found.file}.", _INSTALL)
    if found.refusal:
        return problem(Name.MODEL, found.refusal, _INSTALL)
    if found.loaded_before:
        return ok(Name.MODEL, f"{found.file} is in order and was loaded on this machine before.")
    return ok(
        Name.MODEL,
        f"{found.file} looks in order; it was not loaded on this machine yet.",
        "The first start loads it in a process of its own and remembers that it can.",
    )


def check_engine(name: str, state: str, complaint: str | None) -> Check:
    """The model that a running daemon has loaded, is loading, or could not load."""
    match state:
        case "ready":
            return ok(Name.MODEL, f"{name} is loaded.")
        case "loading":
            return ok(Name.MODEL, f"{name} is being loaded.")
        case "asleep":
            return ok(Name.MODEL, f"{name} is not in memory; the next question loads it again.")
        case "paused":
            return ok(Name.MODEL, f"{name} answers no app while the machine runs on its battery.")
        case _:
            return problem(Name.MODEL, complaint or f"{name} is not loaded.", _INSTALL)


def gpu_facts(use: GpuUse) -> GpuFacts:
    """Asks llama.cpp; blocks for seconds."""
    return GpuFacts(use, ask_llama_cpp())


def check_gpu(found: GpuFacts) -> Check:
    """The model would work where the settings want it to."""
    support = found.asked.support
    if support is None:
        return problem(
            Name.GPU,
            f"llama.cpp could not be asked: {found.asked.complaint}.",
            "Install llama-cpp-python anew, built on this machine.",
        )
    try:
        on_gpu = gives_layers(found.use, support)
    except ModelError as refused:
        return problem(Name.GPU, str(refused), "Or run `tactful config set gpu auto`.")
    place = f"on {_devices(support)}" if on_gpu else "on the processor"
    said = f"the model works {place} (the settings say `gpu: {found.use}`)"
    return ok(Name.GPU, f"{_can(support)}, and {said}.")


def check_offload(found: Offload | None) -> Check:
    """Where the model of a running daemon works; `None` before it is loaded."""
    if found is None:
        return not_applicable(Name.GPU, "No model is loaded, so it works nowhere.")
    share = f"{found.offloaded} of its {found.layers} layers are on a GPU"
    return ok(Name.GPU, f"{_can(found.support)}, and the model works on {found.place}: {share}.")


def _can(support: GpuSupport) -> str:
    if support.supported:
        return "llama.cpp can use a GPU here"
    if support.backends:
        built = " and ".join(support.backends)
        return f"llama.cpp cannot use a GPU here (it was built for {built} and finds no device)"
    return "llama.cpp cannot use a GPU here (it was built for the processor only)"


def _devices(support: GpuSupport) -> str:
    told = (f"{each.name}, {each.description}" for each in support.devices)
    return f"a GPU ({'; '.join(told)})" if support.devices else "a GPU"


def check_remote(settings: Settings | None) -> Check:
    """Whether answers leave this machine; the endpoint itself is not asked. Blocks."""
    if settings is None:
        return unread(Name.REMOTE)
    remote = settings.remote
    if remote.url is None:
        return not_applicable(Name.REMOTE, "Answers do not leave this machine.")
    host = urlsplit(remote.url).netloc
    told = (
        f"Apps are answered by {host}: it is sent their queries, the guidance of released views, "
        "and the turns of their threads."
    )
    if remote.key == "keyring":
        try:
            remote_key(remote.key, host)
        except RemoteFailed as missing:
            return problem(Name.REMOTE, str(missing), f"`{store_command(host)}` puts one there.")
    return ok(Name.REMOTE, told, "`tactful config unset remote.url` answers on this machine.")


def unread(name: Name) -> Check:
    """What is said where the settings, which name the model, cannot be read."""
    return unknown(name, "The settings cannot be read.", "Mend settings.yaml and look again.")
