"""The response model and what it works on: `model`, `gpu`.

Decides what is said about them before a model is loaded, and from a running engine. What is *not*
here: what makes a file loadable (`tactfuld.inference`).

llama.cpp is asked in a process of its own: one that was built for another processor ends whichever
process loads it.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tactful.profile import Profile
from tactfuld.doctor.check import Check, Name, not_applicable, ok, problem, unknown
from tactfuld.inference.engine import available_cores
from tactfuld.inference.errors import ModelError
from tactfuld.inference.footprint import preflight
from tactfuld.inference.offload import GpuUse, Offload, choose_offload
from tactfuld.inference.trial import Attempt, FirstLoads
from tactfuld.models.installed import model_file
from tactfuld.settings import Settings

_PATIENCE = 60
_CANNOT, _CAN = 20, 21
_ASK = (
    "import llama_cpp, sys; "
    f"sys.exit({_CAN} if llama_cpp.llama_supports_gpu_offload() else {_CANNOT})"
)
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
    """What llama.cpp itself says.

    Attributes:
        supported: whether it was built for a GPU and found one; `None` where it did not say.
        complaint: why it did not say.
    """

    use: GpuUse
    supported: bool | None
    complaint: str = ""


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
        case _:
            return problem(Name.MODEL, complaint or f"{name} is not loaded.", _INSTALL)


def gpu_facts(use: GpuUse) -> GpuFacts:
    """Asks llama.cpp; blocks for seconds."""
    command = [sys.executable, "-c", _ASK]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return GpuFacts(use, None, complaint=f"it did not answer within {_PATIENCE} seconds")
    except OSError as refusal:
        return GpuFacts(use, None, complaint=f"it could not be started: {refusal.strerror}")
    status = done.returncode
    if status in (_CANNOT, _CAN):
        return GpuFacts(use, supported=status == _CAN)
    how = f"was ended by {_signal(-status)}" if status < 0 else f"ended with status {status}"
    return GpuFacts(use, None, complaint=f"the process that asked it {how}")


def check_gpu(found: GpuFacts) -> Check:
    """The model works where the settings want it to."""
    if found.supported is None:
        return problem(
            Name.GPU,
            f"llama.cpp could not be asked: {found.complaint}.",
            "Install llama-cpp-python anew, built on this machine.",
        )
    try:
        wanted = choose_offload(found.use, supported=found.supported)
    except ModelError as refused:
        return problem(Name.GPU, str(refused), "Or run `tactful config set gpu auto`.")
    return ok(Name.GPU, f"{_works(wanted)} (the settings say `gpu: {found.use}`).")


def check_offload(found: Offload | None) -> Check:
    """Where the model of a running daemon works; `None` before it is loaded."""
    if found is None:
        return not_applicable(Name.GPU, "No model is loaded yet, so it works nowhere.")
    return ok(Name.GPU, f"{_works(found)}.")


def _works(offload: Offload) -> str:
    can = "can use a GPU here" if offload.supported else "cannot use a GPU here"
    place = "a GPU" if offload.offloaded else "the processor"
    return f"llama.cpp {can}, and the model works on {place}"


def unread(name: Name) -> Check:
    """What is said where the settings, which name the model, cannot be read."""
    return unknown(name, "The settings cannot be read.", "Mend settings.yaml and look again.")


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
