"""Turns on the owner's screen: streamed text is wrapped, and steers no terminal."""

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from tactful.cli.turns import Paragraph, TurnScreen
from tactful.owner_wire import Selection, TurnStarted
from tactful.visible_text import visible

WIDE = Selection(
    slot="food", view="blood_sugar", epsilon=2 / 3, charged=("diabetes", "debt"), fallback=False
)
SPENT = Selection(
    slot="food", view="generic", epsilon=0.0, charged=(), fallback=True,
    reason="the budget of this topic is used up",
)  # fmt: skip


def screen(width: int = 80) -> tuple[Console, io.StringIO]:
    paper = io.StringIO()
    return Console(file=paper, width=width, color_system=None, markup=False), paper


def written(pieces: list[str], width: int = 40) -> str:
    console, paper = screen(width)
    paragraph = Paragraph(console, indent=5)
    for piece in pieces:
        paragraph.add(piece)
    paragraph.end()
    return paper.getvalue()


@given(st.lists(st.text(st.characters(codec="utf-8")), max_size=8))
def test_pieces_may_be_cut_anywhere(pieces: list[str]) -> None:
    assert written(pieces) == written(list("".join(pieces)))


@given(st.lists(st.text("abc äß漢 \n", min_size=1), min_size=1))
def test_lines_are_indented_and_within_the_terminal(pieces: list[str]) -> None:
    for row in written(pieces).splitlines():
        assert row.startswith("     ")
        words = row.split()
        assert cell_len(row) <= 40 or len(words) == 1


@given(st.text(st.characters(codec="utf-8")))
def test_no_word_is_lost(text: str) -> None:
    assert written([text]).split() == visible(text, keep="\n").split()


def test_an_answer_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in written(["calm \x1b]0;title\x07 \x1b[2J\u202egnitrever\u202c"])


def test_an_answer_does_not_begin_with_empty_lines() -> None:
    assert written(["\n\n  Soup.\n\nBread."]) == "     Soup.\n     Bread.\n"


def test_a_turn_shows_question_views_charges_and_answer() -> None:
    console, paper = screen()
    turns = TurnScreen(console)
    turns.started(
        TurnStarted(request=1, turn=4, app="meals", query="Dinner?", selections=(WIDE, SPENT))
    )
    turns.text("Lentil ")
    turns.text("soup.")
    turns.finished()
    shown = paper.getvalue()
    assert "4  meals asks: Dinner?" in shown
    assert "ε 0.667 charged to diabetes and debt" in shown
    assert "generic (fallback)" in shown
    assert "     Lentil soup.\n" in shown


def test_what_apps_and_queries_contain_is_never_read_as_markup_or_control() -> None:
    console, paper = screen()
    turns = TurnScreen(console)
    query = "[bold]\x1b[31mred[/bold]"
    turns.started(TurnStarted(request=1, turn=1, app="meals", query=query, selections=()))
    turns.finished()
    assert "[bold][31mred[/bold]" in paper.getvalue()
