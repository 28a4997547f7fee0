"""The hooks of the app `meals`: a message or an evening becomes a question and a menu entry.

What is *not* here: the menu book's file (`book`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from tactful import Agent, Event, EventKind, Manifest, Setting, hookimpl
from tactful.manifest import SettingValue
from tactful_meals.book import Meal, read_book, write_book

PEOPLE = Setting(key="people", title="How many people dinner is for", default=1)
SUGGESTED = "suggested"
MOST_CHARACTERS = 1000
"""Of a notice."""


@hookimpl
def tactful_manifest() -> Manifest:
    """Asks for three topics, so that a dinner can suit body, taste and purse."""
    return Manifest(
        name="meals",
        title="Meals: what to cook, buy and order",
        version="0.1.0",
        slots=("health", "food", "finance"),
        events=(EventKind.MESSAGE, EventKind.TIMER),
        timers={"evening": "0 17 * * *"},
    )


@hookimpl
def tactful_settings() -> list[Setting]:
    """How many people the evening's suggestion is for."""
    return [PEOPLE]


@hookimpl
async def tactful_on_event(
    event: Event, agent: Agent, settings: Mapping[str, SettingValue]
) -> None:
    """Asks the owner's question, or its own in the evening, and notes the answer in the book."""
    if event.kind == EventKind.TIMER:
        await _suggest(event, agent, evening_question(settings[PEOPLE.key]))
    else:
        answer = await agent.ask(event.text)
        await asyncio.to_thread(_note, Meal(question=event.text, answer=answer.text))


def evening_question(people: SettingValue) -> str:
    """What it asks in the evening."""
    for_whom = f" for {people} people" if isinstance(people, int) and people > 1 else ""
    return f"What could I cook tonight{for_whom}?"


async def _suggest(event: Event, agent: Agent, question: str) -> None:
    """Suggests a dinner, once: an event may come again after a crash, with the id that it had."""
    if await agent.state.get(SUGGESTED) == event.id:
        return
    answer = await agent.ask(question)
    await asyncio.to_thread(_note, Meal(question=question, answer=answer.text))
    await agent.notify(answer.text[:MOST_CHARACTERS], "Tonight")
    await agent.state.set(SUGGESTED, event.id)


def _note(meal: Meal) -> None:
    """The working directory is the app's own folder, the only one that it may write."""
    folder = Path.cwd()
    write_book(folder, read_book(folder).with_meal(meal))
