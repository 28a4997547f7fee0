"""Faults are found where they are, and a plain good answer has none."""

import pytest

from tactful_eval.answer_faults import Fault, faults

INSTRUCTION = "You are a helpful assistant who gives short, practical answers to people."


@pytest.mark.parametrize(
    "answer",
    [
        "Have lentils with roast vegetables. They are cheap and keep you going.",
        'You could say, "I would like to finish my point."',
        "Go for a walk (a short one).\n\nThen call a friend!",
        "1. Write a list.\n2. Do the first thing on it.",
        "Ask users of the gym. The question is: when? Your reader card is free.",
    ],
)
def test_a_good_answer_has_no_fault(answer: str) -> None:
    assert faults(answer, INSTRUCTION) == frozenset()


def test_blanks_are_no_answer() -> None:
    assert faults(" \n", INSTRUCTION) == {Fault.EMPTY}


@pytest.mark.parametrize(
    "answer",
    [
        "Have soup.\nUser: And then?",
        "Assistant: Have soup.",
        "**Answer**: Have soup.",
        "<|im_start|>Have soup.",
        "As an AI language model I do not eat.",
        "I'm an AI. Have soup.",
        "The user could have soup.",
        "The answer is: soup.",
        "Your request is not clear. Have soup.",
        "Your friendly assistant says soup.",
    ],
)
def test_speaking_for_somebody_else_or_as_a_machine_is_role_confusion(answer: str) -> None:
    assert faults(answer, INSTRUCTION) == {Fault.ROLE}


@pytest.mark.parametrize(
    "answer",
    [
        "Suggest a soup.",
        "Hello. Prefer lentils.",
        "Remind the reader to ask.",
        "We are helpful, assistant who gives short practical answers.",
    ],
)
def test_giving_the_instruction_on_is_parroting(answer: str) -> None:
    assert faults(answer, INSTRUCTION) == {Fault.PARROT}


@pytest.mark.parametrize(
    "answer",
    [
        "Make a soup of lentils now. Make a soup of lentils now.",
        "That is good for your heart, as is good for your heart, so is good for your heart.",
    ],
)
def test_saying_the_same_again_is_a_loop(answer: str) -> None:
    assert faults(answer, INSTRUCTION) == {Fault.LOOP}


@pytest.mark.parametrize("answer", ["Have soup and", "1. Soup.\n2.  Two cups of", "Have soup:"])
def test_stopping_within_a_sentence_is_unfinished(answer: str) -> None:
    assert faults(answer, INSTRUCTION) == {Fault.UNFINISHED}


def test_an_answer_may_have_several_faults() -> None:
    assert faults("User: Have a soup and", INSTRUCTION) == {Fault.ROLE, Fault.UNFINISHED}
