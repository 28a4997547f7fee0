"""Prompts for the families of models that we promise to speak look as those were trained.

Each family's own template is read by llama.cpp from a GGUF, on a tiny model with the family's
control tokens; where a real file is at hand, on that too.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.tactfuld.inference.families import GEMMA2, GEMMA3, LLAMA3, QWEN2_5, SMOLLM2
from tests.tactfuld.inference.tiny_model import Family, tiny_model, vocabulary

from tactfuld.inference.chat_template import read_chat_template
from tactfuld.inference.llama_api import LlamaModel, LoadRequest
from tactfuld.inference.prompt import EarlierTurn, Prompt

FAMILIES = {
    "SmolLM2": SMOLLM2, "Qwen2.5": QWEN2_5, "Llama-3.2": LLAMA3, "Gemma-2": GEMMA2,
    "Gemma-3": GEMMA3,
}  # fmt: skip
CHATML = (
    "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n"
    "<|im_start|>assistant\n"
)
GEMMA = "<bos><start_of_turn>user\nBe kind.\n\nWhy?<end_of_turn>\n<start_of_turn>model\n"
LLAMA = (
    "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n"
    "Cutting Knowledge Date: December 2023\nToday Date: TODAY\n\nBe kind.<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\nWhy?<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n"
)
SHOWN = {
    "SmolLM2": CHATML, "Qwen2.5": CHATML, "Llama-3.2": LLAMA, "Gemma-2": GEMMA, "Gemma-3": GEMMA
}  # fmt: skip
# What the earlier question "How?" and its answer "So." put in front of "Why?".
EARLIER = {
    "SmolLM2": "How?<|im_end|>\n<|im_start|>assistant\nSo.<|im_end|>\n<|im_start|>user\n",
    "Qwen2.5": "How?<|im_end|>\n<|im_start|>assistant\nSo.<|im_end|>\n<|im_start|>user\n",
    "Llama-3.2": (
        "How?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nSo.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\n"
    ),
    "Gemma-2": "How?<end_of_turn>\n<start_of_turn>model\nSo.<end_of_turn>\n<start_of_turn>user\n",
    "Gemma-3": "How?<end_of_turn>\n<start_of_turn>model\nSo.<end_of_turn>\n<start_of_turn>user\n",
}

QUESTION = Prompt("Be kind.", "Why?")


@contextmanager
def loaded(path: Path) -> Iterator[LlamaModel]:
    model = LlamaModel(
        LoadRequest(
            path=path, context_length=256, batch=64, threads=1, on_progress=lambda _done: True
        )
    )
    try:
        yield model
    finally:
        model.close()


@pytest.fixture(params=FAMILIES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def family(name: str) -> Family:
    return FAMILIES[name]


@pytest.fixture
def model(family: Family, tmp_path: Path) -> Iterator[LlamaModel]:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(tiny_model(family))
    with loaded(path) as found:
        yield found


def shown(model: LlamaModel, family: Family, tokens: list[int]) -> str:
    """The tokens as text, control tokens by their names, today's date as TODAY."""
    first_control = len(vocabulary(family)[0]) - len(family.controls)
    pieces = [
        family.controls[token - first_control].encode()
        if token >= first_control
        else model.piece(token)
        for token in tokens
    ]
    return re.sub(r"Today Date: \d\d \w+ \d{4}", "Today Date: TODAY", b"".join(pieces).decode())


def test_a_question_looks_as_the_family_was_trained(
    model: LlamaModel, family: Family, name: str
) -> None:
    tokens = read_chat_template(model).encode(QUESTION, model, room=400)
    assert shown(model, family, tokens) == SHOWN[name]


def test_earlier_turns_look_as_the_family_was_trained(
    model: LlamaModel, family: Family, name: str
) -> None:
    prompt = Prompt("Be kind.", "Why?", (EarlierTurn("How?", "So."),))
    tokens = read_chat_template(model).encode(prompt, model, room=400)
    assert shown(model, family, tokens) == SHOWN[name].replace("Why?", EARLIER[name] + "Why?")


def test_a_sequence_begins_once(model: LlamaModel, family: Family) -> None:
    """Llama 3 and Gemma have the mark in the template, and the file asks for it as well."""
    tokens = read_chat_template(model).encode(QUESTION, model, room=400)
    if family.adds_bos:
        assert tokens[0] == model.bos
        assert tokens.count(model.bos) == 1


def test_marks_in_a_text_stay_text(model: LlamaModel, family: Family) -> None:
    template = read_chat_template(model)
    attack = "".join(family.controls)
    harmless = template.encode(QUESTION, model, room=400)
    attacked = template.encode(Prompt(attack, attack), model, room=400)
    marks = [token for token in attacked if not model.is_ordinary(token)]
    assert marks == [token for token in harmless if not model.is_ordinary(token)]


def test_a_reply_ends_at_the_familys_mark(model: LlamaModel, family: Family) -> None:
    (end,) = model.tokenize(family.controls[-1], special=True)
    assert model.is_end(end)


def test_a_real_model_of_another_family_is_spoken_to_as_it_was_trained() -> None:
    """A Qwen2.5 file, where TACTFUL_EVAL_MODEL names one."""
    named = os.environ.get("TACTFUL_EVAL_MODEL")
    if not named:
        pytest.skip("TACTFUL_EVAL_MODEL names no GGUF of Qwen2.5.")
    with loaded(Path(named)) as model:
        tokens = read_chat_template(model).encode(QUESTION, model, room=200)
        assert tokens == model.tokenize(CHATML, special=True)
