"""Faults are found where they are, and a plain good answer has none."""

import pytest

from tactful_eval.answer_faults import Fault, faults

INSTRUCTION = "You are a helpful assistant who gives short, practical answers to people."
GUIDANCE = "Suggest a stew or a roast, without alcohol."


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
    assert faults(answer, INSTRUCTION, GUIDANCE) == frozenset()


def test_blanks_are_no_answer() -> None:
    assert faults(" \n", INSTRUCTION, GUIDANCE) == {Fault.EMPTY}


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
    assert faults(answer, INSTRUCTION, GUIDANCE) == {Fault.ROLE}


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
    assert faults(answer, INSTRUCTION, GUIDANCE) == {Fault.PARROT}


@pytest.mark.parametrize(
    "answer",
    [
        "Make a soup of lentils now. Make a soup of lentils now.",
        "That is good for your heart, as is good for your heart, so is good for your heart.",
    ],
)
def test_saying_the_same_again_is_a_loop(answer: str) -> None:
    assert faults(answer, INSTRUCTION, GUIDANCE) == {Fault.LOOP}


@pytest.mark.parametrize("answer", ["Have soup and", "1. Soup.\n2.  Two cups of", "Have soup:"])
def test_stopping_within_a_sentence_is_unfinished(answer: str) -> None:
    assert faults(answer, INSTRUCTION, GUIDANCE) == {Fault.UNFINISHED}


@pytest.mark.parametrize(
    "answer", ["I suggest a stew or a roast, without alcohol.", "You could try a roast or a stew."]
)
def test_an_answer_without_words_of_its_own_echoes_its_guidance(answer: str) -> None:
    assert faults(answer, INSTRUCTION, GUIDANCE) == {Fault.ECHO}


def test_an_answer_that_goes_beyond_its_guidance_does_not_echo_it() -> None:
    answer = "I suggest a stew without alcohol: simmer beef, carrots and onions for two hours."
    assert faults(answer, INSTRUCTION, GUIDANCE) == frozenset()


def test_an_answer_may_have_several_faults() -> None:
    assert faults("User: Have a soup and", INSTRUCTION, GUIDANCE) == {Fault.ROLE, Fault.UNFINISHED}
