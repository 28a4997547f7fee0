"""The response prompt: what the local model is told for one turn.

Decides: the wording around a public query and the guidance of the selected public views, and that
earlier turns are shown as they were asked and answered.
Not here: which turns those are (the gate), how many of them fit (chat_template), memory (it never
comes here), tokens, the model's chat template.

Invariants
- The prompt is a function of the query, the guidance and released turns alone (GUARANTEE, C6).
- What guidance asks for stands before the question and right after it, earlier turns or not; each
  thing that it forbids stands once, in the instruction.
- `repr` and `str` of a `Prompt` show none of its text.
"""

import re
from dataclasses import dataclass, field
from typing import Final

ROLE: Final = "You are a helpful assistant who gives short, practical answers."
FORM: Final = "Answer in two or three sentences."
OPENING: Final = "I suggest"

CLAUSE_END: Final = re.compile(r"(?<=[.;!?])\s+")
PROHIBITION: Final = re.compile(r"(?:please )?(?:do not|don't|don’t|never)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class EarlierTurn:
    """A question that was asked before in the same conversation, and its released answer."""

    query: str = field(repr=False)
    answer: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request to the model, all of it plain text: an instruction and the user's part.

    `opening` is how the reply begins: the model goes on from there, and the reader sees it.
    `earlier` are turns that came before it, oldest first. Those that do not fit are left out by
    whoever encodes the prompt, the oldest first.
    """

    system: str = field(repr=False)
    user: str = field(repr=False)
    earlier: tuple[EarlierTurn, ...] = field(default=(), repr=False)
    opening: str = field(default="", repr=False)


def build_prompt(
    query: str, guidance: tuple[str, ...], earlier: tuple[EarlierTurn, ...] = ()
) -> Prompt:
    """Return the response prompt for `query` under the `guidance` of the selected views.

    Guidance keeps its order, repeats dropped. What it asks for stands around the question, where a
    small model heeds it most; what it forbids stands in the instruction, because a small model
    talks about whatever is named beside the question ("do not mention any condition"). Where there
    is something to follow, the reply is opened for the model: left to itself a small one gives the
    guidance on, or talks about its answer. `evaluation/README.md` has the figures.
    Earlier turns carry no guidance, and one without an answer is left out.
    """
    clauses = tuple(dict.fromkeys(clause for text in guidance for clause in _clauses(text)))
    forbidden = [clause for clause in clauses if PROHIBITION.match(clause)]
    wanted = " ".join(clause for clause in clauses if not PROHIBITION.match(clause))
    around = (wanted, query.strip(), f"{wanted} {FORM}") if wanted else (query.strip(), FORM)
    return Prompt(
        system=" ".join([ROLE, *forbidden]),
        user="\n\n".join(around),
        earlier=tuple(_shown(turn) for turn in earlier if turn.answer.strip()),
        opening=OPENING if wanted else "",
    )


def _shown(turn: EarlierTurn) -> EarlierTurn:
    return EarlierTurn(turn.query.strip(), turn.answer.strip())


def _clauses(text: str) -> list[str]:
    """Split guidance at `;` and at sentence ends, each clause made a sentence of its own."""
    parts = (part.strip(" ;\t\n") for part in CLAUSE_END.split(text))
    return [_sentence(part) for part in parts if part]


def _sentence(clause: str) -> str:
    end = "" if clause[-1] in ".!?" else "."
    return clause[0].upper() + clause[1:] + end
