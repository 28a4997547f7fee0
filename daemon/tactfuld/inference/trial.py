"""The first load of a model file, in a child process that may die of it.

Decides: when a file has to be tried, what counts as having passed, and the sentence for each way to
fail. Not here: what can be seen without loading (gguf, footprint), the engine that loads it after.

A damaged or hostile file, a llama.cpp that was built for another processor, or too little memory
can end the process that loads a model. So a child loads it first and generates one token. What
passed is remembered by path, size, time of change, version of llama-cpp-python and use of a GPU,
and is not tried again; what failed is, because memory may be free by then.

Invariants
- Whatever the child does, this process gets a sentence (`ModelError`) or nothing.
- No child outlives its trial: it is killed when the trial ends early, and its own alarm ends it
  should this process vanish.
- Under memory pressure the kernel takes the child first.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tactfuld.inference.errors import EngineClosed, ModelError
from tactfuld.inference.footprint import preflight
from tactfuld.inference.offload import GpuUse

TRIAL_SECONDS: Final = 600
POLL_SECONDS: Final = 0.1
MOST_REMEMBERED: Final = 64
OOM_SCORE: Final = Path("/proc/self/oom_score_adj")

Stopped = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Attempt:
    """What to load and how; `context_length` in tokens."""

    path: str
    context_length: int
    threads: int
    gpu: GpuUse = "auto"


@dataclass(frozen=True, slots=True)
class FirstLoads:
    """The files that passed, remembered in `memory`."""

    memory: Path

    def ensure(self, attempt: Attempt, stopped: Stopped = lambda: False) -> None:
        """Raise `ModelError` unless the file is sound, fits, and was or is now loaded once.

        Raises `EngineClosed` when `stopped` says so while the child runs. Blocks for as long as
        the file takes to load.
        """
        path = Path(attempt.path)
        preflight(path, attempt.context_length)
        mark = _mark(attempt)
        known = self._known()
        if mark in known:
            return
        try_load(attempt, stopped)
        # The mark of before: a file that changed meanwhile has another.
        self._keep([*known, mark])

    def passed(self, attempt: Attempt) -> bool:
        """Whether the file as it is now was loaded once."""
        return _mark(attempt) in self._known()

    def _known(self) -> list[list[str | int]]:
        """Damaged or missing means that nothing is remembered: the next load is tried first."""
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(self.memory.read_text("utf-8"))
            return found if isinstance(found, list) else []
        return []

    def _keep(self, marks: list[list[str | int]]) -> None:
        beside = self.memory.with_name(f"{self.memory.name}.{os.getpid()}")
        try:
            self.memory.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text(json.dumps(marks[-MOST_REMEMBERED:]), "utf-8")
            beside.replace(self.memory)
        except OSError:
            # On a read-only or full disk the file is tried again next time, and that is all.
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)


def try_load(attempt: Attempt, stopped: Stopped = lambda: False) -> None:
    """Load a file in a child and generate one token there.

    Raises `ModelError` if the child could not, died, or took too long; `EngineClosed` when
    `stopped` says so.
    """
    with tempfile.TemporaryFile() as answer, _child(attempt, answer.fileno()) as child:
        deadline = time.monotonic() + TRIAL_SECONDS
        while child.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(POLL_SECONDS)
            if stopped():
                raise EngineClosed
            if time.monotonic() > deadline:
                raise ModelError(_failed(attempt, _too_slow()))
        answer.seek(0)
        told = answer.read(1 << 16)
    _judge(attempt, child.returncode, told)


def _mark(attempt: Attempt) -> list[str | int]:
    """What a remembered load is remembered by."""
    path = Path(attempt.path)
    status = path.stat()
    llama = version("llama-cpp-python")
    return [str(path.resolve()), status.st_size, status.st_mtime_ns, llama, attempt.gpu]


def child_command(attempt: Attempt) -> list[str]:
    """How to run the child."""
    return [sys.executable, "-m", __name__, json.dumps(asdict(attempt))]


@contextlib.contextmanager
def _child(attempt: Attempt, answer: int) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        child_command(attempt),
        stdin=subprocess.DEVNULL,
        stdout=answer,
        stderr=subprocess.DEVNULL,
        # Ctrl-C reaches us, and we end the child.
        process_group=0,
    ) as child:
        try:
            yield child
        finally:
            child.kill()
            child.wait()


def _judge(attempt: Attempt, status: int, told: bytes) -> None:
    """What the child's end means; raises `ModelError` unless it said that it could."""
    if status < 0:
        raise ModelError(_failed(attempt, _death(-status)))
    try:
        answer = json.loads(told)
    except ValueError:
        answer = None
    if status != 0 or not isinstance(answer, dict):
        reason = f"the process that tried it ended with status {status} and no answer"
        raise ModelError(_failed(attempt, reason))
    if answer.get("problem") is not None:
        raise ModelError(str(answer["problem"]))


def _failed(attempt: Attempt, reason: str) -> str:
    return (
        f"The model file {attempt.path} was tried in a process of its own and failed: {reason}. "
        "Nothing else was harmed. Use another model; `tactful model list` shows some."
    )


def _death(number: int) -> str:
    if number == signal.SIGKILL:
        return "the operating system killed it, which it does when memory runs out"
    if number == signal.SIGALRM:
        return _too_slow()
    if number == signal.SIGILL:
        return (
            "llama.cpp used an instruction that this processor lacks (SIGILL), so "
            "llama-cpp-python has to be built again on this machine"
        )
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    return f"llama.cpp crashed on it ({name}), so the file is damaged or needs a newer llama.cpp"


def _too_slow() -> str:
    return f"it gave not one token within {TRIAL_SECONDS // 60} minutes"


# Everything below runs in the child.


def main() -> None:
    """Load what the argument names, generate one token, and say how it went on stdout."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(TRIAL_SECONDS)
    with contextlib.suppress(OSError):
        OOM_SCORE.write_text("1000", "ascii")
    attempt = Attempt(**json.loads(sys.argv[1]))
    problem: str | None = None
    try:
        _generate_one(attempt)
    except ModelError as error:
        problem = str(error)
    sys.stdout.write(json.dumps({"problem": problem}))
    sys.stdout.flush()
    # Unloading proves nothing, and may take long or crash.
    os._exit(0)


def _generate_one(attempt: Attempt) -> None:
    from tactfuld.inference import llama_api
    from tactfuld.inference.chat_template import read_chat_template
    from tactfuld.inference.engine import BATCH
    from tactfuld.inference.generation import encode, reply
    from tactfuld.inference.prompt import Prompt
    from tactfuld.inference.sampling import Sampling

    model = llama_api.LlamaModel(
        llama_api.LoadRequest(
            path=Path(attempt.path),
            context_length=attempt.context_length,
            batch=BATCH,
            threads=attempt.threads,
            on_progress=lambda _done: True,
            gpu=attempt.gpu,
        )
    )
    prompt = Prompt("You are a helpful assistant.", "Say hello.")
    tokens = encode(model, read_chat_template(model), prompt, 1)
    with model.context() as context:
        for _ in reply(model, context, tokens, 1, Sampling(temperature=0.0), 0):
            pass


if __name__ == "__main__":
    main()
