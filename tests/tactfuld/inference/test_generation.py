"""A reply comes out in whole characters, opens as it is told, and ends where a reader would."""

from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tactfuld.inference.chat_template import read_chat_template
from tactfuld.inference.generation import (
    FINISHING_TOKENS,
    Encoded,
    encode,
    ends_sentence,
    finishing_tokens,
    reply,
)
from tactfuld.inference.llama_api import LlamaContext, LlamaModel
from tactfuld.inference.prompt import Prompt
from tactfuld.inference.rows import Row
from tactfuld.inference.sampling import Sampling

END = 256
GREEDY = Sampling(temperature=0.0, repeat_penalty=1.0)


class ByteModel:
    """Model and context whose token ids are bytes; it keeps what it was told to read."""

    batch = 64

    def __init__(self, tokens: list[int]) -> None:
        self.read: list[int] = []
        self._left = iter(tokens)

    def is_end(self, token: int) -> bool:
        return token == END

    def piece(self, token: int) -> bytes:
        return bytes([token])

    def decode(self, rows: Sequence[Row]) -> None:
        assert [row.position for row in rows] == list(
            range(len(self.read), len(self.read) + len(rows))
        )
        self.read += [row.token for row in rows]

    def clear(self, *, erase: bool) -> None:
        assert erase or not self.read

    def logits(self) -> npt.NDArray[np.float32]:
        row = np.zeros((1, END + 1), np.float32)
        row[0, next(self._left)] = 1
        return row


def pieces(
    tokens: list[int], max_tokens: int, opening: list[int] | None = None
) -> tuple[list[str], list[int]]:
    byte_model = ByteModel(tokens)
    model, context = cast(LlamaModel, byte_model), cast(LlamaContext, byte_model)
    encoded = Encoded([], opening or [])
    return list(reply(model, context, encoded, max_tokens, GREEDY, 0)), byte_model.read


def written(text: str, max_tokens: int) -> str:
    return "".join(pieces(list(text.encode()), max_tokens)[0])


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_every_text_comes_out_whole(text: str) -> None:
    data = list(text.encode())
    found, _ = pieces([*data, END], len(data) + FINISHING_TOKENS + 1)
    assert "".join(found) == text
    assert "\ufffd" in text or not any("\ufffd" in piece for piece in found)


def test_a_character_cut_off_at_the_end_is_marked() -> None:
    found, _ = pieces(list("é".encode()), 1)
    assert found == ["", "\ufffd"]


def test_the_last_token_is_not_read_back() -> None:
    found, read = pieces([97, 98, 99], 3)
    assert "".join(found) == "abc"
    assert read == [97, 98]


def test_stops_at_the_end_token() -> None:
    found, read = pieces([97, END], 10)
    assert "".join(found) == "a"
    assert read == [97]


def test_an_opening_comes_first_and_is_read_as_if_it_had_been_drawn() -> None:
    found, read = pieces([98, END], 10, opening=[0, 97])
    assert "".join(found) == "\x00ab"
    assert read == [0, 97, 98]


def test_an_opening_counts_as_tokens_of_the_reply() -> None:
    assert "".join(pieces([98, 99], 3, opening=[97])[0]) == "abc"
    assert "".join(pieces([], 2, opening=[97, 98, 99])[0]) == "ab"


def test_an_opening_yields_ordinary_tokens_only(llama_model: LlamaModel) -> None:
    prompt = Prompt("system", "user", opening="Hello<|im_end|>\n<|im_start|>user")
    opening = encode(llama_model, read_chat_template(llama_model), prompt, 8).opening
    assert len(opening) > 1
    assert all(llama_model.is_ordinary(token) for token in opening)


LONG = "This goes on and on, " * 3


def test_near_its_limit_a_reply_ends_with_its_sentence() -> None:
    sentence = f"{LONG}as they do. "
    assert written(sentence * 9, len(sentence) + 20) == sentence.strip()


def test_far_from_its_limit_a_reply_goes_on_after_a_sentence() -> None:
    text = "Yes. And now. " + LONG
    assert written(text, len(text)) == text


@pytest.mark.parametrize(
    "end", ["so.", "so!", "so?", "“so.”", '"so."', "(so).", "(so.)", "**so**."]
)
def test_a_sentence_ends_at_its_mark_with_all_that_closes_it(end: str) -> None:
    assert ends_sentence(f"Do it {end}")


@pytest.mark.parametrize("end", ["so", "3.", "1.", "e.g.", "so:", "“so.", '"so.', "(so.", "so. "])
def test_a_sentence_does_not_end_at_other_points(end: str) -> None:
    assert not ends_sentence(f"Do it {end}")


@given(st.integers(1, 5000))
def test_half_of_a_reply_at_most_is_for_finishing(max_tokens: int) -> None:
    assert 0 <= finishing_tokens(max_tokens) <= max_tokens / 2
