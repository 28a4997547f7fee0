"""Editing policy.yaml by a program: comments stay, and only what is in order is written."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from tactful.errors import NotFound, Unusable
from tactful_policies import starter_text
from tactfuld.policy.errors import PolicyError
from tactfuld.policy.loading import load_document
from tactfuld.policy_file import remove_quota, set_app, set_quota, write_policy

DEMO = starter_text("demo")


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    file = tmp_path / "policy.yaml"
    file.write_text(DEMO)
    return file


def test_a_quota_is_added_changed_and_removed_and_every_comment_stays(policy: Path) -> None:
    set_quota(policy, "meals", "debt", Decimal("0.5"))
    text = policy.read_text()
    assert load_document(policy).apps["meals"].quota == {"debt": Decimal("0.5")}
    assert [line for line in DEMO.splitlines() if line not in text.splitlines()] == []
    set_quota(policy, "meals", "debt", 1)
    assert load_document(policy).apps["meals"].quota == {"debt": 1}
    remove_quota(policy, "meals", "debt")
    assert policy.read_text() == DEMO


@pytest.mark.parametrize(
    ("app", "attribute", "named"), [("meal", "debt", "meals"), ("meals", "dept", "debt")]
)
def test_only_what_the_policy_names_gets_a_quota(
    policy: Path, app: str, attribute: str, named: str
) -> None:
    with pytest.raises(NotFound, match=f"did you mean {named}"):
        set_quota(policy, app, attribute, 1)
    assert policy.read_text() == DEMO


@pytest.mark.parametrize("quota", [3, Decimal("0.0001"), "much", None, {"a": 1}])
def test_a_quota_that_the_daemon_would_refuse_is_not_written(policy: Path, quota: object) -> None:
    with pytest.raises(PolicyError) as refused:
        set_quota(policy, "meals", "debt", quota)
    assert {problem.key for problem in refused.value.problems} == {"apps.meals.quota.debt"}
    assert policy.read_text() == DEMO


def test_only_a_text_in_order_replaces_the_policy(policy: Path) -> None:
    with pytest.raises(PolicyError):
        write_policy(policy, "version: 2\n", instead_of=None)
    assert policy.read_text() == DEMO
    write_policy(policy, starter_text("strict"), instead_of=DEMO.encode())
    assert policy.read_text() == starter_text("strict")


def test_what_somebody_else_wrote_meanwhile_is_not_written_over(policy: Path) -> None:
    with pytest.raises(Unusable, match="changed meanwhile"):
        write_policy(policy, starter_text("strict"), instead_of=b"another")
    assert policy.read_text() == DEMO


def test_a_policy_that_cannot_be_read_can_be_replaced(policy: Path) -> None:
    policy.write_bytes(b"\xff")
    write_policy(policy, DEMO, instead_of=b"\xff")
    assert policy.read_text() == DEMO


def test_timers_are_granted_with_their_kind_and_taken_away_with_it(policy: Path) -> None:
    def grant(*events: str, **timers: str) -> None:
        set_app(
            policy,
            "meals",
            slots=("food",),
            events=events,
            folders={},
            timers=timers,
            check=lambda _document: None,
        )

    grant("timer", morning="0 7 * * *")
    assert load_document(policy).apps["meals"].timers["morning"].cron == "0 7 * * *"
    grant("timer", "app", morning="0 9 * * *", evening="0 18 * * *")
    found = {name: each.cron for name, each in load_document(policy).apps["meals"].timers.items()}
    assert found == {"morning": "0 7 * * *", "evening": "0 18 * * *"}
    grant("message")
    assert load_document(policy).apps["meals"].timers == {}
    assert load_document(policy).apps["meals"].events == ("message",)


def test_a_new_app_gets_its_timers_at_once(policy: Path) -> None:
    set_app(
        policy,
        "briefing",
        slots=(),
        events=("timer",),
        folders={},
        timers={"morning": "0 7 * * *"},
        check=lambda _document: None,
    )
    assert load_document(policy).apps["briefing"].timers["morning"].zone is None
