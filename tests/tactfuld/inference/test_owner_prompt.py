"""The owner's prompt holds every note on a line of its own, and shows itself to nobody."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tactful_core.errors import ContractError
from tactfuld.inference.engine import EngineSettings
from tactfuld.inference.llama_engine import LlamaEngine
from tactfuld.inference.owner_prompt import Note, build_owner_prompt
from tactfuld.inference.sampling import Sampling

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(st.lists(TEXTS, min_size=1, max_size=6))
def test_every_note_stands_on_a_line_of_its_own_in_order(texts: list[str]) -> None:
    notes = tuple(Note("food.diet", text) for text in texts)
    lines = build_owner_prompt("What now?", notes).reveal().user.split("\n")
    assert lines[1:-2] == [f"- food.diet: {' '.join(text.split())}" for text in texts]


def test_the_question_stands_last() -> None:
    prompt = build_owner_prompt("  What may I eat?\n", (Note("food.diet", "No pork."),)).reveal()
    assert prompt.user.endswith("Question: What may I eat?")
    assert "pork" not in prompt.system


def test_without_notes_the_model_is_told_of_none() -> None:
    prompt = build_owner_prompt("What may I eat?", ()).reveal()
    assert prompt.user == "What may I eat?"
    assert "notes" not in prompt.system


def test_has_no_text_form() -> None:
    note = Note("food.diet", "kumquat")
    prompt = build_owner_prompt("persimmon?", (note,))
    assert "kumquat" not in repr(note)
    for shown in (repr(prompt), repr(prompt.reveal())):
        assert "kumquat" not in shown
        assert "persimmon" not in shown
    with pytest.raises(ContractError):
        str(prompt)


FACTS = (
    ("What is my dentist's name?", "Okafor", "My dentist is Dr. Okafor."),
    ("What is my boss called?", "Adler", "My boss is called Mrs. Adler."),
    ("What is my favourite restaurant?", "Blue Lantern", "I like the Blue Lantern best."),
    ("Which instrument do I play?", "cello", "I play the cello with friends."),
)


async def test_the_smallest_model_answers_from_the_notes(embedded_model: Path) -> None:
    """Most of a few plain facts, none of which it can know otherwise; greedy, so it repeats."""
    settings = EngineSettings(context_length=512, sampling=Sampling(temperature=0.0))
    engine = LlamaEngine(embedded_model, settings)
    engine.start()
    notes = tuple(Note("family.people", text) for _, _, text in FACTS)

    async def found(notes: tuple[Note, ...]) -> int:
        hits = 0
        for question, word, _ in FACTS:
            prompt = build_owner_prompt(question, notes)
            reply = engine.generate_for_owner(prompt, max_tokens=24)
            hits += word in "".join([piece async for piece in reply])
        return hits

    with_notes, without = await found(notes), await found(())
    await engine.close()
    assert with_notes >= 3
    assert without == 0
