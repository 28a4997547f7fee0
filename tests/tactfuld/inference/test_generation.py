"""A reply comes out in whole characters, however its tokens cut them."""

from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from tactfuld.inference.generation import _pieces
from tactfuld.inference.llama_api import LlamaContext, LlamaModel

END = -1


class ByteModel:
    """A model whose token ids are bytes; it keeps what it was told to read."""

    def __init__(self) -> None:
        self.read: list[int] = []

    def is_end(self, token: int) -> bool:
        return token == END

    def piece(self, token: int) -> bytes:
        return bytes([token])

    def decode(self, tokens: list[int]) -> None:
        self.read += tokens


def pieces(tokens: list[int], max_tokens: int) -> tuple[list[str], list[int]]:
    model = ByteModel()
    left = iter(tokens)
    text = list(
        _pieces(cast(LlamaModel, model), cast(LlamaContext, model), lambda: next(left), max_tokens)
    )
    return text, model.read


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_every_text_comes_out_whole(text: str) -> None:
    data = list(text.encode())
    found, _ = pieces([*data, END], len(data) + 1)
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
