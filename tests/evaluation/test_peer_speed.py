"""The comparison with dp-fusion-lib: the same ids for both, and a word where it is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.model_fixture import embedded_model
from tests.tactfuld.fusing.samples import MergingTokenizer

from tactful_eval import peer_speed
from tactful_eval.__main__ import main

__all__ = ["embedded_model"]

STAND_INS = {
    "torch": (
        "__version__ = '0'\n"
        "float32 = 0\n"
        "def set_num_threads(number): pass\n"
        "def tensor(ids): return ids\n"
    ),
    "transformers": (
        "class Model:\n"
        "    def eval(self): pass\n"
        "    def forward(self): return 7\n"
        "class _Auto:\n"
        "    @staticmethod\n"
        "    def from_pretrained(pretrained_model_name_or_path, gguf_file, dtype=None):\n"
        "        return Model()\n"
        "AutoTokenizer = AutoModelForCausalLM = _Auto\n"
    ),
    "gguf": "",
    "dp_fusion_lib": (
        "__version__ = '0.1.0'\n"
        "class DPFusion:\n"
        "    def __init__(self, model, tokenizer): self.model = model\n"
        "    def generate_from_tokens(self, private, public, alpha, beta, max_new_tokens):\n"
        "        assert private != public and len(private) == len(public)\n"
        "        assert [self.model.forward() for _ in range(max_new_tokens)][0] == 7\n"
        "        return {'lambdas': {'PRIVATE': [0.5] * max_new_tokens}}\n"
    ),
}
"""As much of these libraries as the worker uses."""


@pytest.fixture
def stand_ins(tmp_path: Path) -> Path:
    for name, text in STAND_INS.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    return tmp_path


def test_prompts_have_the_same_ids_outside_of_spans_and_the_same_length() -> None:
    public, private = peer_speed._rows(MergingTokenizer())
    (filler,) = MergingTokenizer().tokenize("_", special=False)
    assert len(public) == len(private)
    different = {one for one, other in zip(public, private, strict=True) if one != other}
    assert different == {filler}


def test_worker_answers_each_line_with_how_long_it_took(stand_ins: Path) -> None:
    what = {"folder": "/nowhere", "file": "model.gguf", "threads": 2}
    asked = {"private": [1, 2], "public": [1, 0], "tokens": 3, "beta": 0.1}
    run = subprocess.run(
        [sys.executable, str(peer_speed.WORKER)],
        input=f"{json.dumps(what)}\n{json.dumps(asked)}\n{json.dumps(asked)}\n",
        env={"PYTHONPATH": str(stand_ins)},
        capture_output=True,
        text=True,
        check=True,
    )
    version, *answers = map(json.loads, run.stdout.splitlines())
    assert version == {"version": "0.1.0", "torch": "0"}
    assert len(answers) == 2
    for answer in answers:
        assert answer["tokens"] == 3
        assert 0 < answer["model"] <= answer["seconds"]
        assert 0 < answer["after_first"] < answer["seconds"]


@pytest.mark.parametrize("python", [None, sys.executable, "/nowhere/python"])
def test_says_how_to_install_the_other_library_where_it_is_missing(
    python: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(peer_speed.PEER_PYTHON, raising=False)
    if python is not None:
        monkeypatch.setenv(peer_speed.PEER_PYTHON, python)
    with pytest.raises(SystemExit) as ended:
        main(["bench", "peer", "--json"])
    assert ended.value.code == peer_speed.NOT_INSTALLED
    printed = capsys.readouterr()
    assert printed.out == ""
    assert peer_speed.PEER_PYTHON in printed.err


def test_both_sides_take_turns_over_the_same_prompts(
    stand_ins: Path, embedded_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the real engine and kernel on our side, and a stand-in on the other."""
    monkeypatch.setenv("PYTHONPATH", str(stand_ins))
    monkeypatch.setenv(peer_speed.PEER_PYTHON, sys.executable)
    for name, value in {"ROUNDS": 1, "TOKENS": 3}.items():
        monkeypatch.setattr(peer_speed, name, value)
    found: Any = peer_speed.peer_speed(embedded_model, 1)
    assert found.peer_version == "0.1.0"
    assert found.ratio > 0
    assert 0 < found.ours.model_share < 1
