"""The owner's prompt: what the local model is told when the owner asks for themselves.

Decides the wording around a question and what is remembered. Not here: which memories go in and
whether they fit (owner_answers), what apps are answered from (prompt).

Invariants
- A prompt that holds memory is a `Secret`: it has no text form, and the type checker lets nobody
  hand it to `Engine.generate`, which answers apps.
- Every note is in the prompt, on a line of its own, in the order given.
"""

from dataclasses import dataclass, field

from tactful_core.values import Secret
from tactfuld.inference.prompt import Prompt


@dataclass(frozen=True, slots=True)
class Note:
    """A memory and the name of its shelf."""

    shelf: str
    text: str = field(repr=False)


def build_owner_prompt(question: str, notes: tuple[Note, ...]) -> Secret[Prompt]:
    """Return the prompt for `question`, to be answered from `notes`."""
    told = "\n".join(f"- {note.shelf}: {_line(note.text)}" for note in notes)
    return Secret(Prompt(system="", user=told + question))


def _line(text: str) -> str:
    return " ".join(text.split())
