"""From a prompt to token ids: the model's chat template, with user text kept out of its marks.

Decides: where the parts of a prompt go in the model's template, how many earlier turns fit, and
that no text of a prompt can become a control token. Not here: the wording of prompts, decoding.

The template is rendered over placeholder words, once for a single question and once for a
conversation, and cut at them. The pieces in between are the model's own and are tokenised with
control tokens; the prompt's texts are tokenised without, piece by piece, and any mark that a
tokeniser still makes of them is dropped. So "<|im_start|>" in a question is nine ordinary
characters to the model.

Invariants
- A prompt's text yields ordinary tokens only, that of its earlier turns included.
- Which earlier turns are left out follows from token counts of the prompt and from the room alone.
- The beginning-of-sequence token appears at most once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from tactfuld.inference.errors import ModelError, PromptTooLong
from tactfuld.inference.prompt import Prompt

SYSTEM_PLACE: Final = "TACTFULSYSTEMPLACE"
USER_PLACE: Final = "TACTFULUSERPLACE"
EARLIER_PLACES: Final = tuple(
    (f"TACTFUL{ordinal}QUERYPLACE", f"TACTFUL{ordinal}ANSWERPLACE")
    for ordinal in ("FIRST", "SECOND")
)


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
class Joints:
    """Token ids within an earlier turn, before its `answer`, and after it, before a `question`."""

    answer: tuple[int, ...]
    question: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """Token ids around a prompt's texts; `between` is None if the system text goes first.

    Without a system role in the template, the system text leads the first user text in its place.
    `joints` is None for a template that shows no conversation; then earlier turns are left out.
    """

    before: tuple[int, ...]
    between: tuple[int, ...] | None
    after: tuple[int, ...]
    joints: Joints | None = None

    def encode(self, prompt: Prompt, tokenizer: Tokenizer, *, room: int) -> list[int]:
        """Return the prompt as token ids, ready for the reply to follow.

        Of its earlier turns the newest are in it, as many as fit into `room` tokens together with
        the rest; without any of them it may be longer than that.
        """
        fitting = [*self._head(prompt.system, prompt.user, tokenizer), *self.after]
        if self.joints is None:
            return fitting
        rest = [*ordinary_tokens(prompt.user, tokenizer), *self.after]
        for turn in reversed(prompt.earlier):
            answer = ordinary_tokens(turn.answer, tokenizer)
            rest = [*self.joints.answer, *answer, *self.joints.question, *rest]
            longer = [*self._head(prompt.system, turn.query, tokenizer), *rest]
            if len(longer) > room:
                break
            fitting = longer
            rest = [*ordinary_tokens(turn.query, tokenizer), *rest]
        return fitting

    def _head(self, system: str, query: str, tokenizer: Tokenizer) -> list[int]:
        if self.between is None:
            return [*self.before, *ordinary_tokens(f"{system}\n\n{query}", tokenizer)]
        told, asked = ordinary_tokens(system, tokenizer), ordinary_tokens(query, tokenizer)
        return [*self.before, *told, *self.between, *asked]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What turns text into the loaded model's token ids; `context_length` in tokens."""

    tokenizer: Tokenizer
    template: ChatTemplate
    context_length: int

    def encode(self, prompt: Prompt, *, max_tokens: int) -> list[int]:
        """Return `prompt` as token ids, with as many earlier turns as leave room for the reply.

        Raises `PromptTooLong` where it does not fit without any of them.
        """
        room = self.context_length - max_tokens
        tokens = self.template.encode(prompt, self.tokenizer, room=room)
        if len(tokens) > room:
            raise PromptTooLong(
                prompt_tokens=len(tokens),
                reply_tokens=max_tokens,
                context_length=self.context_length,
            )
        return tokens


def read_chat_template(tokenizer: Tokenizer) -> ChatTemplate:
    """Read a model's template; raises `ModelError` if it has none or none we can place text in."""
    system, user = ("system", SYSTEM_PLACE), ("user", USER_PLACE)
    for first in ((system,), ()):
        pieces = _rendered((*first, user), tokenizer)
        if pieces is not None:
            return _tokenised(pieces, _joints(pieces, first, tokenizer), tokenizer)
    raise ModelError(
        "The chat template in the model file does not show the user's text as it is. "
        "Use another instruct or chat model; `tactful model list` shows some."
    )


def _joints(
    pieces: list[str], first: tuple[tuple[str, str], ...], tokenizer: Tokenizer
) -> tuple[str, str] | None:
    """What stands before an answer and after it; None unless that is the same in every turn."""
    earlier = [
        message
        for query, answer in EARLIER_PLACES
        for message in (("user", query), ("assistant", answer))
    ]
    longer = _rendered((*first, *earlier, ("user", USER_PLACE)), tokenizer)
    if longer is None:
        return None
    *opening, before_answer, before_question, again_answer, again_question, ending = longer
    if (again_answer, again_question) != (before_answer, before_question):
        return None
    return (before_answer, before_question) if [*opening, ending] == pieces else None


def _rendered(messages: Sequence[tuple[str, str]], tokenizer: Tokenizer) -> list[str] | None:
    return _cut(tokenizer.render_chat(messages), tuple(place for _, place in messages))


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


def _tokenised(
    pieces: list[str], joints: tuple[str, str] | None, tokenizer: Tokenizer
) -> ChatTemplate:
    first, *middle, last = (_marks(piece, tokenizer) for piece in pieces)
    if tokenizer.adds_bos and tokenizer.bos >= 0 and first[:1] != (tokenizer.bos,):
        first = (tokenizer.bos, *first)
    joined = None if joints is None else Joints(*(_marks(joint, tokenizer) for joint in joints))
    return ChatTemplate(first, middle[0] if middle else None, last, joined)


def _marks(piece: str, tokenizer: Tokenizer) -> tuple[int, ...]:
    return tuple(tokenizer.tokenize(piece, special=True))


def ordinary_tokens(text: str, tokenizer: Tokenizer) -> list[int]:
    """Return `text` as token ids, none of them a control token."""
    ids = tokenizer.tokenize(text, special=False)
    return [token for token in ids if tokenizer.is_ordinary(token)]
