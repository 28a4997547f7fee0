"""Distances, odds and replays, as the owner and programs read them."""

import pytest
from tests.tactful.cli.command_line import Tactful
from tests.tactful.cli.fake_tactfuld import PASSPHRASE

THIRD = 2.0 / 3


def told(tactful: Tactful, *arguments: str) -> str:
    result = tactful.run("audit", *arguments)
    assert (result.status, result.err) == (0, ""), result
    return " ".join(result.out.split())


def wishing(made: Tactful, wishes: str) -> Tactful:
    made.json("start", TACTFUL_PASSPHRASE=PASSPHRASE, FAKE_TACTFULD=wishes)
    return made


@pytest.mark.parametrize(
    ("words", "positions"),
    [
        (["3"], [3]),
        (["1-3"], [1, 2, 3]),
        (["3", "1", "2-3"], [1, 2, 3]),
        (["food.diet"], [2]),
        (["finance.bills", "food.groceries", "4"], [3, 4, 5]),
    ],
    ids=lambda value: " ".join(map(str, value)),
)
def test_positions_are_numbers_ranges_and_shelves(
    running: Tactful, words: list[str], positions: list[int]
) -> None:
    assert running.json("audit", "distance", *words)["positions"] == positions


@pytest.mark.parametrize(
    ("word", "status", "code"),
    [
        ("food", 64, "usage"),
        ("3-", 64, "usage"),
        ("1-2-3", 64, "usage"),
        ("5-3", 64, "usage"),
        ("٣", 64, "usage"),
        ("7", 66, "not_found"),
        ("0", 66, "not_found"),
        ("1-999999999", 66, "not_found"),
        ("food.cellar", 66, "not_found"),
    ],
)
def test_words_that_name_no_position_are_refused(
    running: Tactful, word: str, status: int, code: str
) -> None:
    result = running.run("audit", "distance", "1", word, "--json")
    assert (result.status, result.error["code"]) == (status, code)
    assert word.partition("-")[0] in result.error["message"] or "999999999" in word


def test_a_distance_names_the_attributes_that_promise_it(running: Tactful) -> None:
    running.json("tell", "meals", "sleep?")
    text = told(running, "distance", "1-2", "food.groceries")
    assert text.startswith("Two memories that differ at positions 1-3: beforehand ε 2.000")
    assert "at most ×7.4: from 10 % to at most 46 %; promised by diabetes" in text
    assert "afterwards ε 0.667, at most ×2.0: from 10 % to at most 18 %" in text
    assert running.json("audit", "distance", "1-3") == {
        "positions": [1, 2, 3],
        "beforehand": 2.0,
        "cover": ["diabetes"],
        "afterwards": pytest.approx(THIRD),
        "fused": None,
    }


def test_a_distance_may_need_several_attributes(running: Tactful) -> None:
    text = told(running, "distance", "1", "5")
    assert "differ at positions 1, 5:" in text
    assert (
        "ε 4.000, at most ×54.6: from 10 % to at most 86 %; promised by diabetes and debt" in text
    )
    assert "afterwards nothing that was released in this epoch depends on what is there" in text


def test_what_no_attribute_covers_has_no_promise(running: Tactful) -> None:
    text = told(running, "distance", "5-6")
    assert "beforehand nothing is promised: no attribute covers position 6" in text
    assert "afterwards no bound: what is there was read without protection" in text
    data = running.json("audit", "distance", "hobbies.music")
    assert data == {
        "positions": [6], "beforehand": None, "cover": [], "afterwards": None, "fused": None
    }  # fmt: skip


def test_odds_are_told_for_the_epoch_the_promise_and_the_lifetime(running: Tactful) -> None:
    running.json("tell", "meals", "dinner?")
    running.json("epoch", "new", "--confirm", "new epoch")
    running.json("tell", "meals", "sleep?")
    text = told(running, "odds")
    assert (
        "diabetes seen ε 0.667 at most ×2.0, up or down: at most 18 %, at least 5.3 % "
        "promised ε 2.000 at most ×7.4, up or down: at most 46 %, at least 1.4 % "
        "lifetime ε 1.333 at most ×3.8, up or down: at most 30 %, at least 2.8 % "
        "debt seen ε 0.000 nothing: it stays 10 %"
    ) in text
    data = running.json("audit", "odds")
    assert (data["epoch"], data["prior_percent"]) == (2, 10)
    assert data["lines"][0]["promised"] == {
        "epsilon": 2.0, "most_percent": 46.0, "least_percent": 1.4
    }  # fmt: skip


def test_odds_are_not_told_where_nothing_is_promised(made: Tactful) -> None:
    wishing(made, '{"exposed": "debt"}')
    assert "debt Nothing is promised: it was read without protection." in told(made, "odds")
    assert made.json("audit", "odds")["lines"][1] == {
        "attribute": "debt", "exposed": True, "with_fused": None, "seen": None, "promised": None,
        "lifetime": None,
    }  # fmt: skip


def test_odds_of_a_ledger_that_cannot_be_read_are_an_error(made: Tactful) -> None:
    wishing(made, '{"unreadable": true}')
    result = made.run("audit", "odds", "--json")
    assert (result.status, result.error["code"]) == (65, "unusable")


def test_a_replay_that_matches_says_how_much_was_read(running: Tactful) -> None:
    assert told(running, "replay").startswith("7 entries, read anew, give exactly the sums")
    assert running.json("audit", "replay") == {"entries": 7, "matches": True}


def test_a_replay_that_does_not_match_is_65_and_still_a_result(made: Tactful) -> None:
    wishing(made, '{"mismatch": true}')
    result = made.run("audit", "replay")
    assert (result.status, result.err) == (65, "")
    assert "7 entries, read anew, do not give the sums" in " ".join(result.out.split())
    result = made.run("audit", "replay", "--json")
    assert (result.status, result.data) == (65, {"entries": 7, "matches": False})


def test_odds_of_views_stand_beside_those_with_fused_text(made: Tactful) -> None:
    """Fused text adds its own log-odds, and the bound then holds but for δ (GUARANTEE §1)."""
    wishing(made, '{"fused": "debt"}')
    text = told(made, "odds")
    assert "seen, with fused text ε 3.500" in text
    assert "promised, with it ε 10.500" in text
    assert "Views and fused text together: (ε 10.000, δ 1e-05); fused text ε 3.000 of 8.000" in text
    assert "except with a probability of at most δ = 1e-05" in text
    diabetes, debt = made.json("audit", "odds")["lines"]
    assert diabetes["with_fused"] is None
    assert debt["seen"]["epsilon"] == 0.0
    found = {name: debt["with_fused"][name]["epsilon"] for name in ("seen", "promised", "lifetime")}
    assert found == {"seen": 3.5, "promised": 10.5, "lifetime": 4.5}
    assert debt["with_fused"]["delta"] == 1e-5


def test_ledgers_and_epochs_show_what_fused_text_adds(made: Tactful) -> None:
    wishing(made, '{"fused": "debt"}')
    ledger = " ".join(made.run("ledger").out.split())
    assert "Fused text, δ 1e-05 debt 3.000 of 8.000, 700 tokens left" in ledger
    assert "except with a probability of at most 1e-05" in ledger
    epoch = " ".join(made.run("epoch", "show").out.split())
    assert "with fused text at most ×" in epoch
    assert "With fused text, except with a probability of at most 1e-05." in epoch
    with made.terminal("epoch", "new") as terminal:
        terminal.expect("Type new epoch to open it:")
        shown = " ".join(terminal.text.split())
        terminal.type("no")
    assert "with fused text ε 14.500" in shown
