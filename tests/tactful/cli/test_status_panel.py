"""One screen says where the model works, how much memory it takes, and whether answers leave."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tactful.cli.status_panel import show_status
from tactful.owner_wire import GpuStatus, ModelStatus, Status

MIB = 1 << 20


def shown(model: ModelStatus, resident: int | None = 300 * MIB) -> str:
    status = Status(
        version="0.1.0",
        pid=4711,
        ready=True,
        profile="/p",
        key_source="passphrase",
        sandbox="bubblewrap",
        policy="5eed",
        positions=5,
        model=model,
        apps=(),
        notices=(),
        resident_bytes=resident,
    )
    out = io.StringIO()
    show_status(Console(file=out, width=120), status, None, "ask")
    return out.getvalue()


def model(state: str = "ready", **known: object) -> ModelStatus:
    told = {"name": "toy", "state": state, "progress": 1.0, **known}
    return ModelStatus.model_validate(told)


@pytest.mark.parametrize(
    ("gpu", "words"),
    [
        (GpuStatus(supported=False, offloaded=False, layers=31), "toy ready on the CPU"),
        (
            GpuStatus(
                supported=True, offloaded=True, layers=31, offloaded_layers=30, place="CUDA0 (H200)"
            ),
            "toy ready on the GPU: 30 of 31 layers on CUDA0 (H200)",
        ),
    ],
)
def test_says_where_the_layers_are(gpu: GpuStatus, words: str) -> None:
    assert words in shown(model(gpu=gpu))


def test_says_how_much_memory_there_is_and_what_the_model_takes_of_it() -> None:
    loaded = shown(model(memory_bytes=120 * MIB))
    assert "300 MiB; weights and caches of the model take 120 MiB" in loaded
    asleep = shown(model("asleep"))
    assert "toy asleep" in asleep
    assert "300 MiB, no model in it" in asleep
    assert "MiB" not in shown(model(), resident=None)


def test_says_when_answers_leave_the_machine() -> None:
    assert "leave" not in shown(model())
    remote = shown(model(answers_from="models.example\x1b[31m"))
    assert "answers leave this machine: models.example" in remote
    assert "\x1b" not in remote
