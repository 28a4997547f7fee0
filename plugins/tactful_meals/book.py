"""The menu book: the last answers, in one small file that a person can read.

Decides what is kept and for how long. What is *not* here: asking (`app`).

Invariants:

- the newest meal is last, at most `CAPACITY` are kept, and a question that is asked again replaces
  its earlier answer;
- the file is replaced as a whole; one that is damaged is put aside under another name, not lost.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

FILE_NAME = "menu.json"
CAPACITY = 30


class Meal(BaseModel):
    """What was asked and what was answered."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    question: str
    answer: str


class MenuBook(BaseModel):
    """The meals, oldest first."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    meals: tuple[Meal, ...] = ()

    def with_meal(self, meal: Meal) -> MenuBook:
        """The book after one more answer."""
        others = [kept for kept in self.meals if kept.question != meal.question]
        return MenuBook(meals=tuple([*others, meal][-CAPACITY:]))


def read_book(folder: Path) -> MenuBook:
    """The book in a folder; an empty one if there is none yet, or only a damaged one."""
    path = folder / FILE_NAME
    try:
        return MenuBook.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return MenuBook()
    except ValidationError:
        path.replace(path.with_suffix(".damaged.json"))
        return MenuBook()


def write_book(folder: Path, book: MenuBook) -> None:
    """Replaces the book in a folder."""
    path = folder / FILE_NAME
    new = path.with_suffix(".new")
    new.write_text(book.model_dump_json(indent=1) + "\n", encoding="utf-8")
    new.replace(path)
