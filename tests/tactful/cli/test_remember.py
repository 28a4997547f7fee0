"""A text goes where the owner says, whole unless they agree; only a terminal is asked."""

from tests.tactful.cli.command_line import Tactful

LONG = f"{'I avoid sugar, ' * 10}always. {'I like rice, ' * 10}too."
UNSPLITTABLE = "x" * 300


def stored(tactful: Tactful) -> dict[str, str]:
    return {item["text"]: item["shelf"] for item in tactful.json("memory", "list")["items"]}


def test_a_proposal_is_accepted_by_the_return_key(running: Tactful) -> None:
    with running.terminal("remember", "My new diet") as terminal:
        terminal.expect("1  food.diet")
        terminal.expect("protected: diabetes")
        terminal.expect("Enter for food.diet, or another number:")
        terminal.type("")
        terminal.expect("Remembered in food.diet, position 2.")
        assert terminal.end() == 0


def test_another_shelf_is_chosen_by_its_number_or_its_name(running: Tactful) -> None:
    for typed, shelf in (("2", "health.condition"), ("food.groceries", "food.groceries")):
        with running.terminal("remember", f"My diet and groceries {typed}") as terminal:
            terminal.expect("Enter for food.diet, or another number:")
            terminal.type("9")
            terminal.expect("Type one of the numbers above.")
            terminal.type(typed if shelf != "health.condition" else "3")
            terminal.expect("Remembered in")
            assert terminal.end() == 0
    assert sorted(stored(running).values()) == ["food.groceries", "health.condition"]


def test_a_full_shelf_is_not_chosen_for_the_owner(running: Tactful) -> None:
    """They are told, and choose: nothing spills by itself."""
    running.json("remember", "Spinach", "--shelf", "food.groceries")
    with running.terminal("remember", "More groceries") as terminal:
        terminal.expect("0 of 1 free")
        terminal.expect("Enter for food.groceries")
        terminal.type("")
        terminal.expect("food.groceries has too little room.")
        terminal.type("2")
        terminal.expect("Remembered in health.condition")
        assert terminal.end() == 0
    refused = running.run("remember", "More groceries", "--yes", "--json")
    assert (refused.status, refused.error["code"]) == (65, "does_not_fit")


def test_nobody_is_asked_without_a_terminal(running: Tactful) -> None:
    refused = running.run("remember", "My new diet", "--json")
    assert (refused.status, refused.error["code"]) == (64, "usage")
    assert "Give --shelf food.diet" in refused.error["message"]
    assert "--yes" in refused.error["message"]
    assert "My new" not in refused.error["message"]
    assert stored(running) == {}


def test_yes_accepts_what_is_proposed(running: Tactful) -> None:
    assert running.json("remember", "My new diet", "--yes") == {
        "positions": [2],
        "shelf": "food.diet",
        "warning": None,
    }


def test_a_position_needs_its_shelf(running: Tactful) -> None:
    refused = running.run("remember", "x", "--position", "2", "--json")
    assert (refused.status, refused.error["code"]) == (64, "usage")


def test_a_split_is_shown_before_it_is_made(running: Tactful) -> None:
    with running.terminal("remember", "--shelf", "food.diet", LONG) as terminal:
        terminal.expect("It is longer than a position of food.diet. It would be split:")
        terminal.expect("1  I avoid sugar,")
        terminal.expect("2  I like rice,")
        terminal.expect("Enter to split it so")
        terminal.type("n")
        terminal.expect("You did not agree to the split.")
        assert terminal.end() == 64
    assert stored(running) == {}
    with running.terminal("remember", "--shelf", "food.diet", LONG) as terminal:
        terminal.expect("Enter to split it so")
        terminal.type("")
        terminal.expect("Remembered in food.diet, positions 2, 20.")
        assert terminal.end() == 0


def test_without_a_terminal_only_an_option_agrees_to_a_split(running: Tactful) -> None:
    refused = running.run("remember", LONG, "--shelf", "food.diet", "--yes", "--json")
    assert (refused.status, refused.error["code"]) == (64, "usage")
    assert "--split" in refused.error["message"]
    assert "sugar" not in refused.error["message"]
    assert stored(running) == {}
    assert len(running.json("remember", LONG, "--shelf", "food.diet", "--split")["positions"]) == 2


def test_a_sentence_that_fits_nowhere_is_refused(running: Tactful) -> None:
    refused = running.run("remember", UNSPLITTABLE, "--shelf", "food.diet", "--json")
    assert (refused.status, refused.error["code"]) == (65, "does_not_fit")


def test_giving_up_at_a_question_remembers_nothing(running: Tactful) -> None:
    with running.terminal("remember", "My new diet") as terminal:
        terminal.expect("Enter for food.diet")
        terminal.press("C")
        assert terminal.end() == 130
    assert stored(running) == {}
