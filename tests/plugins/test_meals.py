"""The app `meals`, alone and as a hosted process."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
from tests.fakes.app_hosting import ScriptedDaemon, hosting, usable_sandbox
from tests.fakes.no_budget import NoBudget

import tactful_meals
from tactful.app_main import handle
from tactful.hooks import App
from tactful.profile import Profile
from tactful.wire import Answer, Begin, Event, EventKind, SettingGiven
from tactful_core.values import AppId
from tactful_meals import app as meals
from tactful_meals.book import CAPACITY, FILE_NAME, Meal, MenuBook, read_book, write_book

MEALS = AppId("meals")


class Cook(NoBudget):
    """Answers every question with its number."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.notices: list[tuple[str, str]] = []

    async def notify(self, text: str, title: str = "") -> None:
        self.notices.append((title, text))

    async def ask(self, query: str, **_options: object) -> Answer:
        self.asked.append(query)
        return Answer(text=f"dish {len(self.asked)}", views=(), policy="p1")


def message(text: str) -> Event:
    return Event(kind=EventKind.MESSAGE, text=text)


def test_fits_its_hooks_under_the_name_of_its_entry_point() -> None:
    manifest = App.checked("meals", meals).manifest
    assert manifest.events == (EventKind.MESSAGE, EventKind.TIMER)


async def test_asks_the_owners_question_as_it_is_and_notes_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cook, app = Cook(), App.checked("meals", meals)
    for question in ("dinner?", "breakfast?"):
        await handle(app, message(question), cook)
    assert cook.asked == ["dinner?", "breakfast?"]
    assert read_book(tmp_path).meals == (
        Meal(question="dinner?", answer="dish 1"),
        Meal(question="breakfast?", answer="dish 2"),
    )


async def test_an_evening_is_one_suggestion_also_if_it_is_told_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cook, app = Cook(), App.checked("meals", meals)
    for id_ in (7, 7, 8):
        await handle(app, Event(kind=EventKind.TIMER, id=id_, timer="evening"), cook)
    assert cook.notices == [("Tonight", "dish 1"), ("Tonight", "dish 2")]
    assert read_book(tmp_path).meals == (
        Meal(question="What could I cook tonight?", answer="dish 2"),
    )


async def test_evening_is_asked_about_for_as_many_people_as_the_owner_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cook, app = Cook(), App.checked("meals", meals)
    given = app.circumstances(Begin(settings=(SettingGiven(key="people", value=3),)))
    event = Event(kind=EventKind.TIMER, id=1, timer="evening")
    await handle(app, event, cook, given=given)
    assert cook.asked == ["What could I cook tonight for 3 people?"]


async def test_runs_in_the_sandbox_from_its_real_entry_point(profile_dir: Path) -> None:
    daemon = ScriptedDaemon(answer="lentil soup")
    sandbox = await asyncio.to_thread(usable_sandbox)
    async with hosting(profile_dir, sandbox, daemon=daemon) as host:
        await host.start(MEALS)
        await host.deliver(MEALS, message("an affordable dinner for tonight"))
    assert [(app, ask.query, ask.slots) for app, ask in daemon.asked] == [
        (MEALS, "an affordable dinner for tonight", None)
    ]
    kept = json.loads((Profile.at(profile_dir).state / "apps" / "meals" / FILE_NAME).read_bytes())
    assert kept["meals"] == [
        {"question": "an affordable dinner for tonight", "answer": "lentil soup"}
    ]


def test_same_question_replaces_its_earlier_answer() -> None:
    book = MenuBook()
    for question, answer in (("a", "1"), ("b", "2"), ("a", "3")):
        book = book.with_meal(Meal(question=question, answer=answer))
    assert [(meal.question, meal.answer) for meal in book.meals] == [("b", "2"), ("a", "3")]


def test_keeps_only_the_last_answers() -> None:
    book = MenuBook()
    for number in range(CAPACITY + 5):
        book = book.with_meal(Meal(question=str(number), answer=""))
    assert [meal.question for meal in book.meals] == [str(n) for n in range(5, CAPACITY + 5)]


def test_book_survives_being_written(tmp_path: Path) -> None:
    assert read_book(tmp_path) == MenuBook()
    book = MenuBook(meals=(Meal(question="dîner ?", answer="une soupe"),))
    write_book(tmp_path, book)
    assert read_book(tmp_path) == book
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


@pytest.mark.parametrize("damaged", ["", "{", '{"version": 2, "meals": []}', '{"more": 1}'])
def test_damaged_book_is_put_aside_not_lost(tmp_path: Path, damaged: str) -> None:
    (tmp_path / FILE_NAME).write_text(damaged, encoding="utf-8")
    assert read_book(tmp_path) == MenuBook()
    write_book(tmp_path, MenuBook())
    assert (tmp_path / "menu.damaged.json").read_text(encoding="utf-8") == damaged


def test_readme_says_what_the_manifest_says() -> None:
    text = (Path(tactful_meals.__path__[0]) / "README.md").read_text(encoding="utf-8")
    manifest = meals.tactful_manifest()
    assert f"| name | `{manifest.name}` |" in text
    assert f"| slots | {', '.join(f'`{slot}`' for slot in manifest.slots)} |" in text
    assert f"| events | {', '.join(f'`{kind}`' for kind in manifest.events)} |" in text
    for name, cron in manifest.timers.items():
        assert f"`{name}`: `{cron}`" in text
        assert f'timers: {{{name}: "{cron}"}}' in text
    assert re.search(rf"meals: {{slots: \[{', '.join(manifest.slots)}\]}}", text)
    assert f"last {CAPACITY} questions" in text
