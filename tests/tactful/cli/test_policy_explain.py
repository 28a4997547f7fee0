"""`tactful policy explain`, with the real `tactfuld`."""

from pathlib import Path

import pytest
from tests.tactful.cli.command_line import INSTALLED, Tactful

from tactful_policies import starter_text


@pytest.fixture
def tactful(profile_dir: Path) -> Tactful:
    """A profile of which only the policy file is there."""
    file = profile_dir / "p" / "config" / "policy.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(starter_text("everyday") + "  silent: {}\n")
    return Tactful(INSTALLED, {"TACTFUL_PROFILE": str(profile_dir / "p")})


def test_a_question_is_explained_from_public_input_alone(tactful: Tactful) -> None:
    data = tactful.json("policy", "explain", "--app", "meals", "cheap", "dinner")
    assert (data["app"], data["query"]) == ("meals", "cheap dinner")
    (food,) = (each for each in data["slots"] if each["slot"] == "food")
    assert food["shelves"] == ["food.diet", "food.groceries", "food.eating_out"]
    assert food["release"]["payers"][0] == {"attribute": "diabetes", "cap": 2.0}
    told = tactful.run("policy", "explain", "--app", "meals", "cheap dinner").out
    assert "reads       food.diet, food.groceries, food.eating_out (80 positions)" in told
    assert "once an epoch" in told
    assert "Suggest a simple meal" in told
    assert "at most ×7.4: from 10 % to at most 46 %" in " ".join(told.split())
    fused, words = data["fused"], " ".join(told.split())
    assert f"from {fused['contexts']} private contexts" in words
    assert f"buys {fused['epoch_tokens']:,} tokens" in words
    assert "stated for the built-in model on two cores, not measured here" in words


def test_a_policy_without_fused_text_has_no_word_of_it(tactful: Tactful) -> None:
    file = Path(tactful.environment["TACTFUL_PROFILE"]) / "config" / "policy.yaml"
    file.write_text(file.read_text().replace("    fusion: {epsilon: 8.0}\n", ""))
    data = tactful.json("policy", "explain", "--app", "meals", "cheap", "dinner")
    assert data["fused"] is None
    assert "fused" not in tactful.run("policy", "explain", "--app", "meals", "cheap dinner").out


def test_a_question_about_no_slot_reads_nothing(tactful: Tactful) -> None:
    told = tactful.run("policy", "explain", "--app", "meals", "zyx qwv")
    assert (told.status, "No memory is read" in " ".join(told.out.split())) == (0, True)


@pytest.mark.parametrize(
    ("app", "status", "code"), [("nobody", 66, "not_found"), ("silent", 77, "denied")]
)
def test_an_app_that_may_not_ask_gets_a_sentence(
    tactful: Tactful, app: str, status: int, code: str
) -> None:
    refused = tactful.run("policy", "explain", "--app", app, "dinner", "--json")
    assert (refused.status, refused.error["code"]) == (status, code)
