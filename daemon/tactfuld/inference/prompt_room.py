"""Whether a question fits the model, before anything is charged for it.

Decides from public input: the question, and every guidance that may stand beside it. What is *not*
here: the wording of the prompt (`prompt`), which earlier turns fit (`chat_template`; they are left
out where they do not).
"""

from __future__ import annotations

from collections.abc import Sequence

from tactfuld.inference.chat_template import Vocabulary, ordinary_tokens
from tactfuld.inference.prompt import build_prompt


def require_room(
    query: str, guidance: Sequence[Sequence[str]], vocabulary: Vocabulary, *, max_tokens: int
) -> None:
    """Refuses a question that leaves no room for the longest guidance of each slot.

    Args:
        guidance: of each slot, the guidance of every view that may be drawn.

    Raises:
        PromptTooLong: with these the prompt, without earlier turns, and the reply do not fit.
    """

    def length(text: str) -> int:
        return len(ordinary_tokens(text, vocabulary.tokenizer))

    longest = tuple(max(texts, key=length) for texts in guidance)
    vocabulary.encode(build_prompt(query, longest), max_tokens=max_tokens)
