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
from collections.abc import Generator
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol

from tactfuld.inference.chat_template import ChatTemplate, Vocabulary, ordinary_tokens
from tactfuld.inference.prompt import Prompt
from tactfuld.inference.rows import rows_of
from tactfuld.inference.sampling import Sampler, Sampling

Pieces = Generator[str, None, None]

FINISHING_TOKENS: Final = 48
# Two letters before the mark: neither "1." nor "e.g." ends a sentence.
SENTENCE_END: Final = re.compile(r"[^\W\d_]{2}[)*”’\"']{0,2}[.!?…][)*”’\"']{0,3}\Z")

if TYPE_CHECKING:
    from tactfuld.inference.llama_api import LlamaContext, LlamaModel


class TokenTexts(Protocol):
    """What a reply's text needs to know of a model."""

    def is_end(self, token: int) -> bool: ...
    def piece(self, token: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Encoded:
    """Token ids of a prompt, and of the words that its reply opens with."""

    prompt: list[int] = field(repr=False)
    opening: list[int] = field(repr=False)


def encode(model: "LlamaModel", template: ChatTemplate, prompt: Prompt, max_tokens: int) -> Encoded:
    """Return `prompt` as token ids, with as many of its earlier turns as leave room for the reply.

    Raises `PromptTooLong` where it does not fit without any of them.
    """
    vocabulary = Vocabulary(model, template, model.context_length)
    tokens = vocabulary.encode(prompt, max_tokens=max_tokens)
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
    sampler, text = Sampler(sampling, seed), ReplyText(model, max_tokens)
    context.clear(erase=False)
    try:
        for start in range(0, len(read), context.batch):
            context.decode(rows_of(read[start : start + context.batch], start, 0))
            yield ""
        drawn = iter(lambda: sampler.draw(context.logits()[0]), None)
        for place, token in enumerate(chain(encoded.opening, drawn), start=len(read)):
            yield text.add(token)
            if text.ended:
                break
            context.decode(rows_of([token], place, 0))
        yield text.rest()
    finally:
        context.clear(erase=True)


class ReplyText:
    """A reply's text as its tokens come; says when it has ended."""

    def __init__(self, vocabulary: "TokenTexts", max_tokens: int) -> None:
        self._vocabulary = vocabulary
        self._most = max_tokens
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._text = ""
        self._tokens = 0
        self.ended = False

    def add(self, token: int) -> str:
        """Return the whole characters that `token` completes; nothing for one that ends it."""
        if self._vocabulary.is_end(token):
            self.ended = True
            return ""
        self._tokens += 1
        piece = self._decoder.decode(self._vocabulary.piece(token))
        self._text += piece
        finishing = self._tokens >= self._most - finishing_tokens(self._most)
        self.ended = self._tokens >= self._most or (finishing and ends_sentence(self._text))
        return piece

    def rest(self) -> str:
        """Return the mark for a character that never became whole; empty where there is none."""
        return self._decoder.decode(b"", final=True)


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
