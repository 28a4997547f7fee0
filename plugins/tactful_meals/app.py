"""The hooks of the app `meals`: a message from the owner becomes a question and a menu entry.

What is *not* here: the menu book's file (`book`).
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from tactful import Agent, Event, EventKind, Manifest, hookimpl
from tactful_meals.book import Meal, read_book, write_book


@hookimpl
def tactful_manifest() -> Manifest:
    """Asks for three topics, so that a dinner can suit body, taste and purse."""
    return Manifest(
        name="meals",
        title="Meals: what to cook, buy and order",
        version="0.1.0",
        slots=("health", "food", "finance"),
        events=(EventKind.MESSAGE,),
    )


@hookimpl
async def tactful_on_event(event: Event, agent: Agent) -> None:
    """Asks the owner's question and notes the answer in the menu book."""
    answer = await agent.ask(event.text)
    await asyncio.to_thread(_note, Meal(question=event.text, answer=answer.text))


def _note(meal: Meal) -> None:
    """The working directory is the app's own folder, the only one that it may write."""
    folder = Path.cwd()
    write_book(folder, read_book(folder).with_meal(meal))
