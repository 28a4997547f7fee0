"""The owner's prompt: what the local model is told when the owner asks for themselves.

Decides the wording around a question and what is remembered. Not here: which memories go in and
whether they fit (owner_answers), what apps are answered from (prompt).

Invariants
- A prompt that holds memory is a `Secret`: it has no text form, and the type checker lets nobody
  hand it to `Engine.generate`, which answers apps.
- Every note is in the prompt, on a line of its own behind its shelf, in the order given; a small
  model finds it there more often than in the instruction, or in an earlier turn.
- The question stands last.
"""

from dataclasses import dataclass, field
from typing import Final

from tactful_core.values import Secret
from tactfuld.inference.prompt import Prompt

ROLE: Final = (
    "You are a helpful assistant who answers from the user's notes in one or two short sentences."
)
WITHOUT_NOTES: Final = "You are a helpful assistant who answers in one or two short sentences."


@dataclass(frozen=True, slots=True)
class Note:
    """A memory and the name of its shelf."""

    shelf: str
    text: str = field(repr=False)


def build_owner_prompt(question: str, notes: tuple[Note, ...]) -> Secret[Prompt]:
    """Return the prompt for `question`, to be answered from `notes`."""
    asked = question.strip()
    if not notes:
        return Secret(Prompt(system=WITHOUT_NOTES, user=asked))
    lines = [f"- {note.shelf}: {_one_line(note.text)}" for note in notes]
    told = "\n".join(["My notes:", *lines])
    return Secret(Prompt(system=ROLE, user=f"{told}\n\nQuestion: {asked}"))


def _one_line(text: str) -> str:
    return " ".join(text.split())
