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
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Final

from tactfuld.inference.chat_template import ChatTemplate
from tactfuld.inference.errors import PromptTooLong
from tactfuld.inference.prompt import Prompt
from tactfuld.inference.sampling import Sampling

Pieces = Generator[str, None, None]

FINISHING_TOKENS: Final = 48
TAIL_CHARACTERS: Final = 8
# Two letters before the mark: neither "1." nor "e.g." ends a sentence.
SENTENCE_END: Final = re.compile(r"[^\W\d_]{2}[)*”’\"']{0,2}[.!?…][)*”’\"']{0,3}\Z")

if TYPE_CHECKING:
    from tactfuld.inference.llama_api import LlamaContext, LlamaModel


def encode(
    model: "LlamaModel", template: ChatTemplate, prompt: Prompt, max_tokens: int
) -> list[int]:
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
    return tokens


def reply(
    model: "LlamaModel",
    context: "LlamaContext",
    tokens: list[int],
    max_tokens: int,
    sampling: Sampling,
    seed: int,
) -> Pieces:
    """Yield the reply to `tokens`; an empty piece where there is no whole character yet."""
    context.clear(erase=False)
    try:
        for start in range(0, len(tokens), context.batch):
            context.decode(tokens[start : start + context.batch])
            yield ""
        with context.sampler(sampling, seed) as draw:
            yield from _pieces(model, context, draw, max_tokens)
    finally:
        context.clear(erase=True)


def finishing_tokens(max_tokens: int) -> int:
    """How many of the last tokens of a reply only finish its sentence: half of them at most."""
    return min(FINISHING_TOKENS, max_tokens // 2)


def _pieces(
    model: "LlamaModel", context: "LlamaContext", draw: Callable[[], int], max_tokens: int
) -> Pieces:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    tail = ""
    for drawn in range(1, max_tokens + 1):
        token = draw()
        if model.is_end(token):
            break
        piece = decoder.decode(model.piece(token))
        yield piece
        tail = (tail + piece)[-TAIL_CHARACTERS:]
        if drawn >= max_tokens - finishing_tokens(max_tokens) and SENTENCE_END.search(tail):
            break
        if drawn < max_tokens:
            context.decode([token])
    yield decoder.decode(b"", final=True)
