"""The response prompt shows the question and all of the guidance, and nothing of itself."""

from hypothesis import given
from hypothesis import strategies as st

from tactfuld.inference.prompt import EarlierTurn, Prompt, build_prompt

BLOOD_SUGAR = "Prefer low-glycaemic choices; do not mention any condition."
STRICT_BUDGET = "Keep the cost as low as possible."


def test_guidance_stands_before_the_question_and_right_after_it() -> None:
    prompt = build_prompt("What could I cook?", (STRICT_BUDGET,))
    assert prompt.user.startswith(f"{STRICT_BUDGET}\n\nWhat could I cook?\n\n{STRICT_BUDGET}")


def test_what_is_forbidden_stands_in_the_instruction() -> None:
    prompt = build_prompt("What could I cook?", (BLOOD_SUGAR,))
    assert "Prefer low-glycaemic choices." in prompt.user
    assert prompt.system.endswith("Do not mention any condition.")
    assert "condition" not in prompt.user


def test_guidance_of_several_views_keeps_its_order_without_repeats() -> None:
    prompt = build_prompt("q", ("First. Second.", STRICT_BUDGET, "Second."))
    assert prompt.user.startswith(f"First. Second. {STRICT_BUDGET}\n\nq\n\n")
    assert prompt.user.count("Second.") == 2


def test_a_reply_is_opened_only_where_there_is_something_to_follow() -> None:
    assert build_prompt("q", (BLOOD_SUGAR,)).opening
    assert build_prompt("q", ("Do not mention any condition.",)).opening == ""
    assert build_prompt("q", ()).opening == ""


@given(st.text())
def test_an_opening_says_nothing_of_question_or_guidance(text: str) -> None:
    assert build_prompt(text, (STRICT_BUDGET,)).opening == build_prompt("q", (BLOOD_SUGAR,)).opening


def test_a_question_without_guidance_is_still_a_prompt() -> None:
    assert build_prompt(" Why? ", ()).user.startswith("Why?\n\n")


def test_earlier_turns_are_shown_as_they_were_and_the_guidance_stays_by_the_question() -> None:
    earlier = (EarlierTurn(" What is soup? ", "A meal.\n"), EarlierTurn("Why?", "Hunger."))
    prompt = build_prompt("And tomorrow?", (STRICT_BUDGET,), earlier)
    assert prompt.earlier == (EarlierTurn("What is soup?", "A meal."), earlier[1])
    alone = build_prompt("And tomorrow?", (STRICT_BUDGET,))
    assert (prompt.system, prompt.user) == (alone.system, alone.user)


def test_earlier_question_that_got_no_answer_is_left_out() -> None:
    earlier = (EarlierTurn("Why?", " "), EarlierTurn("Who?", "You."))
    assert build_prompt("q", (), earlier).earlier == earlier[1:]


def test_repr_and_str_show_no_text() -> None:
    turn = EarlierTurn("a marker", "a marker")
    prompt = Prompt("a system marker", "a user marker", (turn,), "a marker")
    assert "marker" not in f"{prompt!r} {prompt}"


words = st.text("abcdef ", min_size=1, max_size=12).map(str.strip).filter(bool)


@given(st.text(), st.lists(words, max_size=4))
def test_the_prompt_is_a_function_of_question_and_guidance(query: str, guidance: list[str]) -> None:
    prompt = build_prompt(query, tuple(guidance))
    assert prompt == build_prompt(query, tuple(guidance))
    assert query.strip() in prompt.user
    for clause in guidance:
        assert clause[1:] in prompt.user
