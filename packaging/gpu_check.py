"""`make gpu-check`: what llama.cpp does with the GPU of this machine, in under eight minutes.

Decides what is looked at and what the result file says. Not here: any rule about GPUs
(`tactfuld.inference.offload`) or about rows (`tactfuld.inference.public_row`): it asks the code
that the daemon runs.

Each part runs in a process of its own with a time limit, because a driver can end the process that
asks it. A part that could not be run is told as `not run`, never left out and never taken for one
that went well.

Exit status: 0 if every part ran and holds, 1 if one does not hold or failed, 3 if there is no GPU.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from platformdirs import user_cache_path

from tactfuld.inference.errors import InferenceError
from tactfuld.inference.gpu_wait import ask_llama_cpp
from tactfuld.inference.offload import GpuUse

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = ROOT / ".cache" / "gpu-check"

# Together 430 seconds, and at most 60 for asking llama.cpp.
SECONDS: Final = {"offload": 70, "public_row": 100, "speed_gpu": 80, "speed_cpu": 100}
NOT_RUN: Final = "not run"

ROWS: Final = (2, 5, 9)
PROMPT_TOKENS: Final = 256
REPLY_TOKENS: Final = 32
STREAMS: Final = 8
CONTEXT: Final = 512
BATCH: Final = 64


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the check: `holds` is None where there is nothing to hold, or it was not run."""

    name: str
    holds: bool | None
    found: dict[str, Any]
    problem: str = ""


def main() -> None:
    """Run all parts, write the result file, and print it."""
    arguments = _arguments()
    if arguments.part:
        _child(arguments.part, Path(arguments.model), arguments.gpu)
        return
    model = _model(arguments.model)
    load = round(os.getloadavg()[0], 1)
    asked = ask_llama_cpp()
    supported = asked.support is not None and asked.support.supported
    parts = [
        Part("support", None, asdict(asked.support) if asked.support else {}, asked.complaint),
        _run("offload", model, "required") if supported else _not_run("offload"),
        _run("public_row", model, "required" if supported else "off"),
        _run("speed_gpu", model, "required") if supported else _not_run("speed_gpu"),
        _run("speed_cpu", model, "off"),
    ]
    path = _write(Path(arguments.out), model, parts, load=load, gpu=supported)
    print(path.read_text("utf-8"))
    print(f"Written to {path.name} and {path.with_suffix('.json').name} in {arguments.out}.")
    sys.exit(_status(parts, gpu=supported))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, prog="make gpu-check")
    parser.add_argument("--model", default="", help="a GGUF file; else the embedded one")
    parser.add_argument("--out", default=str(RESULTS), help="a folder for the result")
    parser.add_argument("--part", default="", choices=["", *SECONDS], help=argparse.SUPPRESS)
    parser.add_argument("--gpu", default="auto", help=argparse.SUPPRESS)
    return parser.parse_args()


def _model(given: str) -> Path:
    path = Path(given) if given else user_cache_path("tactful") / "models" / "smollm2.gguf"
    if not path.is_file():
        sys.exit(f"There is no model file {path}. Run `make setup`, or name one with --model.")
    return path


# ---- the parts, in processes of their own


def _run(name: str, model: Path, gpu: GpuUse) -> Part:
    command = [sys.executable, __file__, "--part", name, "--model", str(model), "--gpu", gpu]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=SECONDS[name], check=False, cwd=ROOT
        )
    except subprocess.TimeoutExpired:
        return Part(name, False, {}, f"it took longer than {SECONDS[name]} seconds")
    try:
        told = json.loads(done.stdout)
        return Part(name, told["holds"], told["found"], told["problem"])
    except (ValueError, KeyError, TypeError):
        return Part(name, False, {}, f"its process ended with status {done.returncode}")


def _not_run(name: str) -> Part:
    return Part(name, None, {}, NOT_RUN)


def _child(name: str, model: Path, gpu: GpuUse) -> None:
    looks: dict[str, Callable[[Path, GpuUse], Part]] = {
        "offload": _offload,
        "public_row": _public_row,
        "speed_gpu": _speed,
        "speed_cpu": _speed,
    }
    try:
        part = looks[name](model, gpu)
    except InferenceError as error:
        part = Part(name, False, {}, str(error))
    sys.stdout.write(json.dumps(asdict(part)))
    sys.stdout.flush()
    # A driver that crashes while it is unloaded changes nothing of what was found.
    os._exit(0)


def _loaded(path: Path, gpu: GpuUse) -> Any:
    from tactfuld.inference.engine import available_cores
    from tactfuld.inference.llama_api import LlamaModel, LoadRequest

    threads = available_cores()
    return LlamaModel(LoadRequest(path, CONTEXT, BATCH, threads, lambda _done: True, gpu))


def _offload(path: Path, gpu: GpuUse) -> Part:
    """Every layer is on the GPU, and its memory shows it."""
    from tactfuld.inference.gpu_support import free_memory

    before = free_memory()
    model = _loaded(path, gpu)
    taken, weights = before - free_memory(), path.stat().st_size
    offload = model.offload
    holds = offload.layers > 0 and offload.offloaded == offload.layers and taken > weights // 2
    found = {
        "layers": offload.layers,
        "offloaded": offload.offloaded,
        "place": offload.place,
        "device_bytes_taken": taken,
        "file_bytes": weights,
    }
    return Part("offload", holds, found)


def _public_row(path: Path, gpu: GpuUse) -> Part:
    """Row 0 is the same bits whatever the other rows hold (GUARANTEE §5)."""
    from tactfuld.inference.public_row import public_row_stands_alone

    model = _loaded(path, gpu)
    found = {f"{rows} rows": public_row_stands_alone(model, rows) for rows in ROWS}
    return Part("public_row", all(found.values()), {"gpu": gpu, **found})


def _speed(path: Path, gpu: GpuUse) -> Part:
    """Tokens per second of reading a prompt, of one stream, and of eight together."""
    model = _loaded(path, gpu)
    with model.context(sequences=STREAMS, length=STREAMS * CONTEXT) as context:
        _stream(context, 1, 2)  # the first call compiles kernels
        context.clear(erase=False)
        reading = _timed(lambda: _read(context))
        context.clear(erase=False)
        one = _timed(lambda: _stream(context, 1, REPLY_TOKENS))
        context.clear(erase=False)
        eight = _timed(lambda: _stream(context, STREAMS, REPLY_TOKENS))
    found = {
        "prompt": round(PROMPT_TOKENS / reading, 1),
        "one_stream": round(REPLY_TOKENS / one, 1),
        "eight_streams": round(STREAMS * REPLY_TOKENS / eight, 1),
    }
    return Part("speed", None, found)


def _timed(work: Callable[[], None]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _read(context: Any) -> None:
    from tactfuld.inference.rows import Row

    for start in range(0, PROMPT_TOKENS, BATCH):
        positions = range(start, start + BATCH)
        context.decode([Row(1 + at, at, (0,), at == PROMPT_TOKENS - 1) for at in positions])
    context.logits()


def _stream(context: Any, streams: int, tokens: int) -> None:
    from tactfuld.inference.rows import Row

    for at in range(tokens):
        context.decode([Row(1 + at, at, (each,), logits=True) for each in range(streams)])
        context.logits()


# ---- the result


def _status(parts: list[Part], *, gpu: bool) -> int:
    failed = any(
        part.holds is False or (part.problem and part.problem != NOT_RUN) for part in parts
    )
    if failed:
        return 1
    return 0 if gpu else 3


def _write(folder: Path, model: Path, parts: list[Part], *, load: float, gpu: bool) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    now = dt.datetime.now(dt.UTC)
    path = folder / f"gpu-check-{now:%Y-%m-%d-%H%M}.md"
    about = {
        "date": f"{now:%Y-%m-%d %H:%M} UTC",
        "gpu": gpu,
        "model": model.name,
        "llama_cpp_python": version("llama-cpp-python"),
        "load": load,
        "parts": [asdict(part) for part in parts],
    }
    path.with_suffix(".json").write_text(f"{json.dumps(about, indent=1)}\n", "utf-8")
    path.write_text(_page(about, parts), "utf-8")
    return path


def _page(about: dict[str, Any], parts: list[Part]) -> str:
    """The result for people."""
    support, offload, row, on_gpu, on_cpu = parts
    found = support.found.get("devices", ())
    devices = "; ".join(f"{each['name']}, {each['description']}" for each in found) or "none"
    llama, model = about["llama_cpp_python"], about["model"]
    lines = [
        f"# GPU check of {about['date']}",
        "",
        f"llama-cpp-python {llama}, model `{model}`, GPU: {devices}. Load average at the start:",
        f"{about['load']}; speeds are comparable only where it is near 0.",
        "",
    ]
    if not about["gpu"]:
        why = support.problem or _no_gpu(support)
        lines += [f"**Not run on a GPU**: {why}. What needs one is `{NOT_RUN}` below.", ""]
    beside = f"the public row is the same bits beside any private rows, on {_where(row)}"
    lines += [
        "| part | result |",
        "| --- | --- |",
        f"| every layer is on the GPU | {_told(offload)} |",
        f"| {beside} | {_told(row)} |",
        "",
        "| tokens per second | GPU | processor |",
        "| --- | --- | --- |",
    ]
    for key, words in (
        ("prompt", f"a prompt of {PROMPT_TOKENS} tokens"),
        ("one_stream", "one stream"),
        ("eight_streams", f"{STREAMS} streams together"),
    ):
        figures = (str(part.found.get(key, part.problem or "?")) for part in (on_gpu, on_cpu))
        lines.append(f"| {words} | {' | '.join(figures)} |")
    return "\n".join([*lines, ""])


def _no_gpu(support: Part) -> str:
    backends = support.found.get("backends", ())
    if backends:
        return f"llama.cpp was built for {' and '.join(backends)} and finds no device"
    return "llama.cpp was built for the processor only"


def _where(row: Part) -> str:
    return "the GPU" if row.found.get("gpu") == "required" else "the processor"


def _told(part: Part) -> str:
    if part.holds is None:
        return part.problem
    outcome = "holds" if part.holds else "**does not hold**"
    words = {True: "yes", False: "no"}
    shown = {key: words.get(value, value) for key, value in part.found.items()}
    figures = ", ".join(f"{key}: {value}" for key, value in shown.items())
    return "; ".join(each for each in (outcome, part.problem, figures) if each)


if __name__ == "__main__":
    main()
