"""One reply: from a prompt to pieces of text, a token at a time.

Decides: whether a prompt fits, in what portions it is read, when a reply ends, and that only whole
characters come out. Not here: threads and queues (engine), how a token is drawn (sampling).

Invariants
- The context is empty before the first token is read and overwritten once the reply is over,
  however it ends.
- The caller gets control back after each batch of the prompt and after each token.
- When a reply ends is a function of its own text and of public constants (GUARANTEE, C6): at the
  model's end mark, at the limit, or, near the limit, at the end of a sentence.
"""

import codecs
import re
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from tactfuld.inference.chat_template import ChatTemplate, ordinary_tokens
from tactfuld.inference.errors import PromptTooLong
from tactfuld.inference.prompt import Prompt
from tactfuld.inference.rows import rows_of
from tactfuld.inference.sampling import Sampling

Pieces = Generator[str, None, None]

FINISHING_TOKENS: Final = 48
# Two letters before the mark: neither "1." nor "e.g." ends a sentence.
SENTENCE_END: Final = re.compile(r"[^\W\d_]{2}[)*”’\"']{0,2}[.!?…][)*”’\"']{0,3}\Z")

if TYPE_CHECKING:
    from tactfuld.inference.llama_api import LlamaContext, LlamaModel


@dataclass(frozen=True, slots=True)
class Encoded:
    """Token ids of a prompt, and of the words that its reply opens with."""

    prompt: list[int] = field(repr=False)
    opening: list[int] = field(repr=False)


def encode(model: "LlamaModel", template: ChatTemplate, prompt: Prompt, max_tokens: int) -> Encoded:
    """Return `prompt` as token ids, with as many of its earlier turns as leave room for the reply.

    Raises `PromptTooLong` where it does not fit without any of them.
    """
    tokens = template.encode(prompt, model, room=model.context_length - max_tokens)
    if len(tokens) + max_tokens > model.context_length:
        raise PromptTooLong(
            prompt_tokens=len(tokens),
            reply_tokens=max_tokens,
            context_length=model.context_length,
        )
    return Encoded(tokens, ordinary_tokens(prompt.opening, model))


def reply(
    model: "LlamaModel",
    context: "LlamaContext",
    encoded: Encoded,
    max_tokens: int,
    sampling: Sampling,
    seed: int,
) -> Pieces:
    """Yield the reply, its opening first; an empty piece where there is no whole character yet."""
    read = encoded.prompt
    context.clear(erase=False)
    try:
        for start in range(0, len(read), context.batch):
            context.decode(rows_of(read[start : start + context.batch], start, 0))
            yield ""
        with context.sampler(sampling, seed) as draw:
            drawn = chain(encoded.opening, iter(lambda: draw(-1), None))
            yield from _pieces(model, context, drawn, len(read), max_tokens)
    finally:
        context.clear(erase=True)


def finishing_tokens(max_tokens: int) -> int:
    """How many of the last tokens of a reply only finish its sentence: half of them at most."""
    return min(FINISHING_TOKENS, max_tokens // 2)


def ends_sentence(text: str) -> bool:
    """Whether `text` ends with a whole sentence, and leaves no bracket or quotation open."""
    return (
        SENTENCE_END.search(text) is not None
        and text.count("(") == text.count(")")
        and text.count("“") == text.count("”")
        and text.count('"') % 2 == 0
    )


def _pieces(
    model: "LlamaModel",
    context: "LlamaContext",
    tokens: Iterable[int],
    position: int,
    max_tokens: int,
) -> Pieces:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = ""
    for drawn, token in enumerate(islice(tokens, max_tokens), start=1):
        if model.is_end(token):
            break
        piece = decoder.decode(model.piece(token))
        yield piece
        text += piece
        if drawn >= max_tokens - finishing_tokens(max_tokens) and ends_sentence(text):
            break
        if drawn < max_tokens:
            context.decode(rows_of([token], position + drawn - 1, 0))
    yield decoder.decode(b"", final=True)
