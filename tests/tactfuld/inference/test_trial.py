"""A model file is first loaded by a child; whatever becomes of it, we get a sentence."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import llama_cpp
import pytest
from tests.tactfuld.inference.families import SMOLLM2
from tests.tactfuld.inference.tiny_model import tiny_model

from tactfuld.inference import trial
from tactfuld.inference.engine import EngineState
from tactfuld.inference.errors import EngineClosed, ModelError
from tactfuld.inference.llama_engine import LlamaEngine
from tactfuld.inference.trial import Attempt, FirstLoads, try_load


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(tiny_model(SMOLLM2))
    return Attempt(str(path), context_length=256, threads=1)


@pytest.fixture
def loads(tmp_path: Path) -> FirstLoads:
    return FirstLoads(tmp_path / "cache" / "first-loads.json")


def child_that(monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Puts a child in place that does this instead of loading."""
    code = f"import os, signal, sys, time\n{body}"
    monkeypatch.setattr(trial, "child_command", lambda _attempt: [sys.executable, "-c", code])


def test_a_sound_file_passes(attempt: Attempt) -> None:
    try_load(attempt)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("os.abort()", r"crashed on it \(SIGABRT\)"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", r"crashed on it \(SIGSEGV\)"),
        ("import ctypes; ctypes.string_at(0)", r"crashed on it \(SIGSEGV\)"),
        ("os.kill(os.getpid(), signal.SIGILL)", "has to be built again on this machine"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "when memory runs out"),
        ("signal.alarm(1); time.sleep(60)", "not one token within 10 minutes"),
        ("os.kill(os.getpid(), 40)", "signal 40"),
        ("sys.exit(3)", "ended with status 3 and no answer"),
        ("pass", "ended with status 0 and no answer"),
        ("print('[]')", "ended with status 0 and no answer"),
    ],
)
def test_each_death_of_the_child_is_a_sentence(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch, body: str, said: str
) -> None:
    child_that(monkeypatch, body)
    with pytest.raises(ModelError, match=said) as told:
        try_load(attempt)
    assert attempt.path in str(told.value)


def test_the_child_loads_as_the_engine_will(attempt: Attempt) -> None:
    if llama_cpp.llama_supports_gpu_offload():
        pytest.skip("this llama.cpp has a GPU")
    with pytest.raises(ModelError, match="cannot use a GPU"):
        try_load(replace(attempt, gpu="required"))


def test_what_llama_cpp_refuses_is_told_in_its_words(attempt: Attempt, tmp_path: Path) -> None:
    path = tmp_path / "other.gguf"
    path.write_bytes(
        Path(attempt.path).read_bytes().replace(b"\5\0\0\0\0\0\0\0llama", b"\5\0\0\0\0\0\0\0llamo")
    )
    with pytest.raises(ModelError, match="unknown model architecture: 'llamo'"):
        try_load(Attempt(str(path), 256, 1))


def test_a_real_model_with_a_damaged_middle_never_ends_this_process(
    embedded_model: Path, loads: FirstLoads, tmp_path: Path
) -> None:
    """Its header is sound and its length is right, but the shape it tells is not that it has."""
    content = bytearray(embedded_model.read_bytes())
    at = content.index(b"llama.feed_forward_length") + len(b"llama.feed_forward_length") + 4
    content[at : at + 4] = (7).to_bytes(4, "little")
    path = tmp_path / "damaged.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="wrong shape"):
        loads.ensure(Attempt(str(path), 512, 1))


def test_a_real_model_cut_short_is_refused_before_any_child_runs(
    embedded_model: Path, loads: FirstLoads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "short.gguf"
    path.write_bytes(embedded_model.read_bytes()[: embedded_model.stat().st_size // 2])
    monkeypatch.setattr(trial, "try_load", lambda *_: pytest.fail("a child was started"))
    with pytest.raises(ModelError, match="cut short"):
        loads.ensure(Attempt(str(path), 512, 1))


def test_a_child_that_takes_too_long_is_killed(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were it not, waiting for its end would take ten minutes."""
    child_that(monkeypatch, "time.sleep(600)")
    monkeypatch.setattr(trial, "TRIAL_SECONDS", 0)
    with pytest.raises(ModelError, match="not one token"):
        try_load(attempt)


def test_closing_ends_the_child(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    child_that(monkeypatch, "time.sleep(600)")
    with pytest.raises(EngineClosed):
        try_load(attempt, stopped=lambda: True)


def test_the_child_says_when_it_is_to_be_taken_first(attempt: Attempt) -> None:
    """The program that really runs sets its own alarm and raises its own score."""
    watched = (
        "import signal, tactfuld.inference.trial as trial\n"
        "seen = []\n"
        "trial._generate_one = lambda _: seen.append(trial.OOM_SCORE.read_text())\n"
        "trial.os._exit = lambda status: print(seen, signal.alarm(0))\n"
        "trial.main()\n"
    )
    if not trial.OOM_SCORE.exists():
        pytest.skip("This system has no score for running out of memory.")
    given = json.dumps({"path": attempt.path, "context_length": 256, "threads": 1})
    run = subprocess.run(
        [sys.executable, "-c", watched, given], capture_output=True, text=True, check=True
    )
    assert "1000" in run.stdout
    assert int(run.stdout.split()[-1]) > 0


class TestMemory:
    def test_a_file_that_passed_is_not_tried_again(
        self, attempt: Attempt, loads: FirstLoads, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert not loads.passed(attempt)
        loads.ensure(attempt)
        assert loads.passed(attempt)
        monkeypatch.setattr(trial, "try_load", lambda *_: pytest.fail("it was tried again"))
        loads.ensure(attempt)

    @pytest.mark.parametrize("change", ["touched", "grown", "another llama.cpp", "off the GPU"])
    def test_a_file_that_changed_is_tried_again(
        self, attempt: Attempt, loads: FirstLoads, monkeypatch: pytest.MonkeyPatch, change: str
    ) -> None:
        loads.ensure(attempt)
        path = Path(attempt.path)
        if change == "touched":
            os.utime(path, ns=(1, 1))
        elif change == "grown":
            status = path.stat()
            path.write_bytes(path.read_bytes() + b"\0")
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        elif change == "off the GPU":
            attempt = replace(attempt, gpu="off")
        else:
            monkeypatch.setattr(trial, "version", lambda _name: "0.0")
        assert not loads.passed(attempt)
        tried = self.counted(monkeypatch)
        loads.ensure(attempt)
        assert tried == [attempt]

    def test_what_failed_is_tried_again(
        self, attempt: Attempt, loads: FirstLoads, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patched:
            child_that(patched, "os.abort()")
            with pytest.raises(ModelError):
                loads.ensure(attempt)
        assert not loads.passed(attempt)
        loads.ensure(attempt)
        assert loads.passed(attempt)

    def test_a_file_that_changes_while_it_is_tried_has_not_passed(
        self, attempt: Attempt, loads: FirstLoads, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = Path(attempt.path)
        monkeypatch.setattr(trial, "try_load", lambda *_: os.utime(path, ns=(1, 1)))
        loads.ensure(attempt)
        assert not loads.passed(attempt)

    @pytest.mark.parametrize("damage", [b"", b"{", b"\xff", b'{"a": 1}'])
    def test_damaged_memory_remembers_nothing(
        self, attempt: Attempt, loads: FirstLoads, damage: bytes
    ) -> None:
        loads.memory.parent.mkdir()
        loads.memory.write_bytes(damage)
        assert not loads.passed(attempt)
        loads.ensure(attempt)
        assert loads.passed(attempt)

    def test_a_cache_that_cannot_be_written_costs_another_trial_only(
        self, attempt: Attempt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "file").write_text("in the way of a folder")
        loads = FirstLoads(tmp_path / "file" / "first-loads.json")
        tried = self.counted(monkeypatch)
        loads.ensure(attempt)
        loads.ensure(attempt)
        assert tried == [attempt, attempt]

    def counted(self, monkeypatch: pytest.MonkeyPatch) -> list[Attempt]:
        tried: list[Attempt] = []
        monkeypatch.setattr(trial, "try_load", lambda attempt, _stopped: tried.append(attempt))
        return tried


async def test_an_engine_survives_a_file_that_kills_whoever_loads_it(
    attempt: Attempt, loads: FirstLoads, monkeypatch: pytest.MonkeyPatch
) -> None:
    child_that(monkeypatch, "os.kill(os.getpid(), signal.SIGSEGV)")
    engine = LlamaEngine(
        Path(attempt.path), check=lambda _path, stopped: loads.ensure(attempt, stopped)
    )
    engine.start()
    with pytest.raises(ModelError, match="SIGSEGV"):
        await engine.ready(50)
    assert engine.state is EngineState.FAILED
    await engine.close()


async def test_closing_an_engine_does_not_wait_for_a_trial(
    attempt: Attempt, loads: FirstLoads, monkeypatch: pytest.MonkeyPatch
) -> None:
    child_that(monkeypatch, "time.sleep(600)")
    engine = LlamaEngine(
        Path(attempt.path), check=lambda _path, stopped: loads.ensure(attempt, stopped)
    )
    engine.start()
    await engine.close()
    assert engine.state is EngineState.CLOSED


def test_ctrl_c_ends_the_child(attempt: Attempt, tmp_path: Path) -> None:
    """Of a program that is in the middle of a trial nothing is left."""
    pid = tmp_path / "pid"
    child = f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)"
    program = (
        "import os, signal, sys, threading, time\n"
        "from tactfuld.inference import trial\n"
        f"trial.child_command = lambda _: [sys.executable, '-c', {child!r}]\n"
        "def interrupt():\n"
        f"    while not os.path.exists({str(pid)!r}) or not os.path.getsize({str(pid)!r}):\n"
        "        time.sleep(0.01)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "threading.Thread(target=interrupt).start()\n"
        "try:\n"
        f"    trial.try_load(trial.Attempt({attempt.path!r}, 256, 1))\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout == "interrupted\n"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), signal.SIGCONT)
