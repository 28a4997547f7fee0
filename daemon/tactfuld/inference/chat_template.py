"""From a prompt to token ids: the model's chat template, with user text kept out of its marks.

Decides: where the parts of a prompt go in the model's template, and that no text of a prompt can
become a control token. Not here: the wording of prompts, decoding.

The template is rendered once, over two placeholder words, and cut at them. The pieces in between
are the model's own and are tokenised with control tokens; the prompt's texts are tokenised
without, piece by piece, and any mark that a tokeniser still makes of them is dropped. So
"<|im_start|>" in a question is nine ordinary characters to the model.

Invariants
- A prompt's text yields ordinary tokens only.
- The beginning-of-sequence token appears at most once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from tactfuld.inference.errors import ModelError
from tactfuld.inference.prompt import Prompt

SYSTEM_PLACE: Final = "TACTFULSYSTEMPLACE"
USER_PLACE: Final = "TACTFULUSERPLACE"


class Tokenizer(Protocol):
    """What encoding needs to know of a model."""

    @property
    def bos(self) -> int: ...
    @property
    def adds_bos(self) -> bool: ...
    def render_chat(self, messages: Sequence[tuple[str, str]]) -> str | None: ...
    def tokenize(self, text: str, *, special: bool) -> list[int]: ...
    def is_ordinary(self, token: int) -> bool: ...


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """Token ids around a prompt's two texts; `between` is None if the system text goes first.

    Without a system role in the template, the system text leads the user text in one place.
    """

    before: tuple[int, ...]
    between: tuple[int, ...] | None
    after: tuple[int, ...]

    def encode(self, prompt: Prompt, tokenizer: Tokenizer) -> list[int]:
        """Return the whole prompt as token ids, ready for the reply to follow."""
        if self.between is None:
            text = _ordinary(f"{prompt.system}\n\n{prompt.user}", tokenizer)
            return [*self.before, *text, *self.after]
        system = _ordinary(prompt.system, tokenizer)
        user = _ordinary(prompt.user, tokenizer)
        return [*self.before, *system, *self.between, *user, *self.after]


def read_chat_template(tokenizer: Tokenizer) -> ChatTemplate:
    """Read a model's template; raises `ModelError` if it has none or none we can place text in."""
    system, user = ("system", SYSTEM_PLACE), ("user", USER_PLACE)
    for messages in ((system, user), (user,)):
        places = tuple(place for _, place in messages)
        pieces = _cut(tokenizer.render_chat(messages), places)
        if pieces is not None:
            return _tokenised(pieces, tokenizer)
    raise ModelError(
        "The chat template in the model file does not show the user's text as it is. "
        "Point `model` at another instruct or chat model."
    )


def _cut(rendered: str | None, places: tuple[str, ...]) -> list[str] | None:
    """Split at each place in order; None unless each occurs exactly once, in that order."""
    if rendered is None or any(rendered.count(place) != 1 for place in places):
        return None
    pieces = []
    rest = rendered
    for place in places:
        before, found, rest = rest.partition(place)
        if not found:
            return None
        pieces.append(before)
    return [*pieces, rest]


def _tokenised(pieces: list[str], tokenizer: Tokenizer) -> ChatTemplate:
    first, *middle, last = (tuple(tokenizer.tokenize(piece, special=True)) for piece in pieces)
    if tokenizer.adds_bos and tokenizer.bos >= 0 and first[:1] != (tokenizer.bos,):
        first = (tokenizer.bos, *first)
    return ChatTemplate(first, middle[0] if middle else None, last)


def _ordinary(text: str, tokenizer: Tokenizer) -> list[int]:
    ids = tokenizer.tokenize(text, special=False)
    return [token for token in ids if tokenizer.is_ordinary(token)]
