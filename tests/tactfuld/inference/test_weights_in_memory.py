"""What happens to the model's file after the load changes nothing: no crash, no other answers."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, sys
from pathlib import Path
import llama_cpp
from tactfuld.inference import llama_api
from tactfuld.inference.chat_template import read_chat_template
from tactfuld.inference.generation import encode, reply
from tactfuld.inference.prompt import Prompt
from tactfuld.inference.sampling import Sampling

path, harm, mapped = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "mapped"
if mapped:
    llama_cpp.LLAMA_LOAD_MODE_NONE = llama_cpp.LLAMA_LOAD_MODE_MMAP
request = llama_api.LoadRequest(path, 128, 64, 1, lambda _done: True)
model = llama_api.LlamaModel(request)
prompt = Prompt("Be brief.", "Name three fruits.")
tokens = encode(model, read_chat_template(model), prompt, 8)

def answer():
    with model.context() as context:
        return "".join(reply(model, context, tokens, 8, Sampling(temperature=0.0), 0))

before = answer()
size = path.stat().st_size
if harm == "cut short":
    os.truncate(path, 4096)
elif harm == "overwritten":
    with path.open("r+b") as file:
        file.seek(size // 4)
        file.write(b"\\0" * (size // 2))
elif harm == "replaced":
    other = path.with_suffix(".other")
    other.write_bytes(b"not a model")
    other.replace(path)
else:
    path.unlink()
sys.exit(0 if answer() == before else 1)
"""


def run(model: Path, harm: str, how: str) -> int:
    command = [sys.executable, "-c", PROGRAM, str(model), harm, how]
    return subprocess.run(command, capture_output=True, check=False, timeout=55).returncode


@pytest.fixture
def copied(embedded_model: Path, tmp_path: Path) -> Path:
    """A file of our own to harm."""
    return Path(shutil.copy(embedded_model, tmp_path / "model.gguf"))


@pytest.mark.parametrize("harm", ["cut short", "overwritten", "replaced", "deleted"])
def test_a_loaded_model_answers_as_before_whatever_happens_to_its_file(
    copied: Path, harm: str
) -> None:
    assert run(copied, harm, "read") == 0


def test_a_mapped_file_that_is_cut_short_would_end_the_process(copied: Path) -> None:
    """The negative control: llama.cpp maps files by itself."""
    assert run(copied, "cut short", "mapped") == -signal.SIGBUS


def test_a_mapped_file_that_is_written_over_would_change_the_answers(copied: Path) -> None:
    """The negative control; what comes of weights that are 0 may also end the process."""
    assert run(copied, "overwritten", "mapped") != 0
