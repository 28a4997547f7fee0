"""Models so small that they load at once, with a real family's chat template and control tokens.

Their vocabulary is every byte and the family's control tokens; their weights are small numbers, so
what they say means nothing. llama.cpp loads them like any other model.
"""

import struct
from dataclasses import dataclass

from tests.tactfuld.inference.tiny_gguf import (
    TinyGguf,
    array_entry,
    string_entry,
    tensor,
    text,
    u32_entry,
)

NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
WIDTH, HIDDEN, CONTEXT = 32, 32, 512
ALIGNMENT = 64


@dataclass(frozen=True)
class Family:
    """What makes a model one of its family, as far as prompts go.

    `kind` and `pre` are what GGUF calls the tokeniser; `controls` its marks, the first being the
    one that begins a sequence where there is one, the last the one that ends a reply.
    """

    template: str
    controls: tuple[str, ...]
    kind: str = "gpt2"
    pre: str = "llama-bpe"
    adds_bos: bool = False
    bos: str | None = None
    space_prefix: bool = False


def bool_entry(key: bytes, value: bool) -> bytes:
    return text(key) + struct.pack("<IB", 7, value)


def f32_entry(key: bytes, value: float) -> bytes:
    return text(key) + struct.pack("<If", 6, value)


def tiny_model(family: Family) -> bytes:
    """A whole GGUF of one layer."""
    tokens, kinds = vocabulary(family)
    shapes = network(len(tokens))
    tensors, data = [], b""
    for number, (name, shape) in enumerate(shapes.items()):
        tensors.append(tensor(name, shape, len(data)))
        data += weights(shape, number, norm=b"norm" in name)
        data += b"\0" * (-len(data) % ALIGNMENT)
    entries = [*architecture(), *tokenizer(family, tokens, kinds)]
    return TinyGguf(entries=entries, tensors=tensors, alignment=ALIGNMENT, data=data).build()


def vocabulary(family: Family) -> tuple[list[bytes], list[int]]:
    if family.kind == "gpt2":
        letters = [character.encode() for character in byte_letters()]
        kinds = [NORMAL] * 256
    else:
        # SentencePiece writes a space as this letter before it looks for tokens.
        letters = [b"<unk>", *(f"<0x{byte:02X}>".encode() for byte in range(256)), "▁".encode()]
        kinds = [UNKNOWN, *[BYTE] * 256, NORMAL]
    marks = [mark.encode() for mark in family.controls]
    return letters + marks, kinds + [CONTROL] * len(marks)


def byte_letters() -> list[str]:
    """The printable letter that byte-level BPE writes for each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(spare)) for byte in range(256)]


def network(vocabulary_size: int) -> dict[bytes, tuple[int, ...]]:
    square = (WIDTH, WIDTH)
    layer = {
        b"attn_norm": (WIDTH,), b"attn_q": square, b"attn_k": square, b"attn_v": square,
        b"attn_output": square, b"ffn_norm": (WIDTH,), b"ffn_gate": (WIDTH, HIDDEN),
        b"ffn_up": (WIDTH, HIDDEN), b"ffn_down": (HIDDEN, WIDTH),
    }  # fmt: skip
    return {
        b"token_embd.weight": (WIDTH, vocabulary_size),
        b"output_norm.weight": (WIDTH,),
        **{b"blk.0." + name + b".weight": shape for name, shape in layer.items()},
    }


def weights(shape: tuple[int, ...], seed: int, *, norm: bool) -> bytes:
    count = 1
    for size in shape:
        count *= size
    if norm:
        return struct.pack("<f", 1.0) * count
    values = (((position * 7919 + seed * 104729) % 2003) / 2003 - 0.5 for position in range(count))
    return struct.pack(f"<{count}f", *values)


def architecture() -> list[bytes]:
    return [
        string_entry(b"general.architecture", b"llama"),
        u32_entry(b"general.alignment", ALIGNMENT),
        u32_entry(b"llama.block_count", 1),
        u32_entry(b"llama.context_length", CONTEXT),
        u32_entry(b"llama.embedding_length", WIDTH),
        u32_entry(b"llama.feed_forward_length", HIDDEN),
        u32_entry(b"llama.attention.head_count", 2),
        f32_entry(b"llama.attention.layer_norm_rms_epsilon", 1e-5),
    ]


def tokenizer(family: Family, tokens: list[bytes], kinds: list[int]) -> list[bytes]:
    count = len(tokens)
    entries = [
        string_entry(b"tokenizer.ggml.model", family.kind.encode()),
        string_entry(b"tokenizer.ggml.pre", family.pre.encode()),
        array_entry(b"tokenizer.ggml.tokens", 8, count, b"".join(map(text, tokens))),
        array_entry(b"tokenizer.ggml.token_type", 5, count, struct.pack(f"<{count}i", *kinds)),
        array_entry(b"tokenizer.ggml.scores", 6, count, b"\0" * 4 * count),
        u32_entry(b"tokenizer.ggml.eos_token_id", count - 1),
        bool_entry(b"tokenizer.ggml.add_bos_token", family.adds_bos),
        bool_entry(b"tokenizer.ggml.add_space_prefix", family.space_prefix),
        string_entry(b"tokenizer.chat_template", family.template.encode()),
    ]
    if family.kind == "gpt2":
        entries.append(array_entry(b"tokenizer.ggml.merges", 8, 0, b""))
    if family.bos is not None:
        place = tokens.index(family.bos.encode())
        entries.append(u32_entry(b"tokenizer.ggml.bos_token_id", place))
    return entries
