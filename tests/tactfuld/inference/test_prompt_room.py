"""A question that does not fit with the longest guidance is refused; any other fits with all."""

from itertools import product

import pytest

from tactfuld.inference.chat_template import ChatTemplate, Joints, Vocabulary
from tactfuld.inference.errors import PromptTooLong
from tactfuld.inference.prompt import build_prompt
from tactfuld.inference.prompt_room import require_room
from tactfuld.inference.scripted import ScriptedTokenizer

QUERY = "What shall I cook tonight?"
GUIDANCE = (
    ("Be brief.", "Prefer cheap meals that keep for a week.", "Say yes."),
    ("Please do not mention any condition or diagnosis.", "Be kind."),
)
REPLY = 10


def vocabulary(context_length: int) -> Vocabulary:
    return Vocabulary(ScriptedTokenizer(), ChatTemplate((), (), (), Joints((), ())), context_length)


def test_refused_exactly_where_some_views_would_leave_no_room() -> None:
    known = vocabulary(1000)
    lengths = [
        len(known.encode(build_prompt(QUERY, drawn), max_tokens=REPLY))
        for drawn in product(*GUIDANCE)
    ]
    least = max(lengths) + REPLY
    require_room(QUERY, GUIDANCE, vocabulary(least), max_tokens=REPLY)
    with pytest.raises(PromptTooLong):
        require_room(QUERY, GUIDANCE, vocabulary(least - 1), max_tokens=REPLY)


def test_a_question_about_no_slot_needs_its_own_room() -> None:
    least = len(vocabulary(1000).encode(build_prompt(QUERY, ()), max_tokens=REPLY)) + REPLY
    require_room(QUERY, (), vocabulary(least), max_tokens=REPLY)
    with pytest.raises(PromptTooLong):
        require_room(QUERY, (), vocabulary(least - 1), max_tokens=REPLY)
