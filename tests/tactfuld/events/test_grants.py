"""What a policy says of events, as the bus sees it; and what of it is taken away at once."""

from pathlib import Path

from tests.tactfuld.policy.texts import edited

from tactful.wire import EventKind
from tactfuld.events.grants import EventGrant, event_grants
from tactfuld.events.schedule import Schedule
from tactfuld.policy.document import PolicyDocument
from tactfuld.policy.loading import parse_document
from tactfuld.policy.staging import narrowed, tightened

EVERYTHING = """\
    slots: [food]
    events: [timer, file, app, budget, policy]
    timers: {morning: "0 7 * * *", week: {cron: "0 18 * * sun", zone: Europe/Paris}}
    folders: {~/Recipes: read, /srv/lists: write}
    hears: [guest]
    budget_below: {food: 2}
  guest: {slots: [food]}
"""


def policy(text: str = EVERYTHING) -> PolicyDocument:
    written = edited("    slots: [food]\n    quota: {debt: 1.0}\n", text)
    return parse_document(written, source="policy.yaml")


def grant(document: PolicyDocument) -> EventGrant:
    return event_grants(document)["meals"]  # type: ignore[index]


def test_everything_that_is_written_is_granted() -> None:
    found = grant(policy())
    assert found.kinds == frozenset(EventKind) - {EventKind.MESSAGE}
    assert dict(found.timers) == {
        "morning": Schedule("0 7 * * *"),
        "week": Schedule("0 18 * * sun", "Europe/Paris"),
    }
    assert found.folders == (Path.home() / "Recipes", Path("/srv/lists"))
    assert found.hears == {"guest"}
    assert dict(found.thresholds) == {"food": 2}


def test_an_app_that_is_told_of_nothing_is_not_there() -> None:
    assert "guest" not in event_grants(policy())


def test_what_is_taken_away_is_gone_at_once_and_what_is_new_waits_for_the_tick() -> None:
    wanted = policy(
        EVERYTHING.replace('morning: "0 7 * * *"', 'noon: "0 12 * * *"')
        .replace("hears: [guest]", "hears: []")
        .replace("{food: 2}", "{food: 3}")
        .replace("[timer, file,", "[timer,")
    )
    at_once = grant(narrowed(policy(), wanted))
    assert at_once.timers.keys() == {"week"}
    assert (at_once.hears, dict(at_once.thresholds)) == (frozenset(), {})
    assert not at_once.takes(EventKind.FILE)
    assert grant(tightened(policy(), wanted)).timers.keys() == {"week", "noon"}
