"""`tactful inbox` and `tactful events tail`."""

from tests.tactful.cli.command_line import Tactful


def test_it_lists_what_apps_have_to_say_without_what_would_steer_a_terminal(
    running: Tactful,
) -> None:
    result = running.run("inbox")
    assert result.status == 0
    assert "Soup [2Jis on." in result.out
    assert "proposes for food" in result.out
    assert "I avoid sugary food." in result.out
    assert [item["id"] for item in running.json("inbox")["items"]] == [1, 2]


def test_a_proposal_is_remembered_where_its_owner_says_and_then_gone(running: Tactful) -> None:
    refused = running.run("inbox", "accept", "2", "--json")
    assert refused.error["code"] == "usage"
    data = running.json("inbox", "accept", "2", "--shelf", "food.diet")
    assert (data["accepted"], data["shelf"]) == (2, "food.diet")
    assert [item["id"] for item in running.json("inbox")["items"]] == [1]
    assert running.run("inbox", "accept", "2", "--yes", "--json").error["code"] == "not_found"
    assert running.run("inbox", "accept", "1", "--yes", "--json").error["code"] == "not_found"


def test_the_shelves_of_the_slot_that_was_named_are_proposed_first(running: Tactful) -> None:
    assert running.json("inbox", "accept", "2", "--yes")["shelf"].startswith("food.")


def test_what_was_read_is_taken_out(running: Tactful) -> None:
    assert running.json("inbox", "dismiss", "1", "9") == {"removed": [1]}
    assert running.json("inbox", "dismiss", "--all") == {"removed": [2]}
    assert running.run("inbox").out.startswith("Nothing is there.")
    for arguments in ([], ["1", "--all"]):
        assert running.run("inbox", "dismiss", *arguments, "--json").error["code"] == "usage"


def test_the_tail_shows_what_became_of_events(running: Tactful) -> None:
    lines = running.run("events", "tail").out.splitlines()
    assert [line.split("  ", 1)[1] for line in lines] == [
        "meals  timer 7  waiting  morning",
        "meals  timer 7  handled  morning",
    ]
    assert [each["fate"] for each in running.json("events", "tail")["events"]] == [
        "waiting",
        "handled",
    ]
