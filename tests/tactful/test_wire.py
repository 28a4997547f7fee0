"""The messages of both sockets: who has which method, what an app may see, what is documented."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tactful import owner_wire, wire
from tactful.dialling import CLIENT_LIMITS
from tactful.owner_wire import OwnerMethod, Remember
from tactful.wire import (
    Answer,
    AnswerKind,
    AppMethod,
    Ask,
    Authenticate,
    Budget,
    EventKind,
    HostedMethod,
    Message,
    Notification,
    Progress,
)
from tactfuld.server.listeners import APP_LIMITS, MOST_CONNECTIONS, OWNER_LIMITS
from tactfuld.server.session import Patience

_PROTOCOL = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")

_MESSAGES = [
    kind
    for kind in vars(wire).values()
    if isinstance(kind, type) and issubclass(kind, Message) and kind is not Message
]


def test_tables_share_nothing_but_authenticate() -> None:
    app = {str(method) for method in AppMethod}
    owner = {str(method) for method in OwnerMethod}
    hosted = {str(method) for method in HostedMethod}
    assert app & owner == {"authenticate"}
    assert not hosted & (app | owner)


@pytest.mark.parametrize("kind", _MESSAGES)
def test_unknown_fields_are_refused_and_nothing_can_be_changed(kind: type[Message]) -> None:
    assert kind.model_config.get("extra") == "forbid"
    assert kind.model_config.get("frozen") is True


def _fields(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        for value in schema.values():
            yield from _fields(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _fields(value)


def test_app_sees_text_views_and_a_version_and_nothing_else() -> None:
    seen = {"text", "views", "policy", "slot", "view", "detail"}
    assert set(_fields(Answer.model_json_schema())) == seen
    assert set(_fields(Progress.model_json_schema())) == {"request", "text"}
    assert set(_fields(Budget.model_json_schema())) == {"slots", "slot", "answer", "fresh_left"}
    assert {str(kind) for kind in AnswerKind} == {"fresh", "standing", "generic"}


@pytest.mark.parametrize(
    ("kind", "field", "longest"),
    [(Ask, "query", 2000), (Remember, "text", 8000), (Authenticate, "token", 200)],
)
def test_texts_have_a_longest_length(kind: type[Message], field: str, longest: int) -> None:
    others = {"shelf": "food.diet"} if kind is Remember else {}
    fits = kind.model_validate({field: "x" * longest, **others})
    assert len(getattr(fits, field)) == longest
    for text in ("", "x" * (longest + 1)):
        with pytest.raises(ValidationError):
            kind.model_validate({field: text, **others})


@pytest.mark.parametrize(
    "slot", ["", "Food", "1food", "food.diet", "food\n", "f" * 41, "füd", "food "]
)
def test_names_are_plain(slot: str) -> None:
    with pytest.raises(ValidationError):
        Ask.model_validate({"query": "q", "slots": [slot]})


@pytest.mark.parametrize("thread", ["a", "2026-11-30", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"])
def test_dates_and_uuids_can_name_threads(thread: str) -> None:
    assert Ask(query="q", thread=thread).thread == thread


@pytest.mark.parametrize("thread", ["", "A", "a b", "-a", "a" * 41, "a\n", "über"])
def test_other_names_of_threads_are_refused(thread: str) -> None:
    with pytest.raises(ValidationError):
        Ask(query="q", thread=thread)


def test_longest_messages_fit_their_lines() -> None:
    escaped = len(r"\ud83d\ude00")
    envelope = 1000
    assert 2000 * escaped + 32 * 44 + envelope < APP_LIMITS.line_bytes
    assert 8000 * escaped + envelope < OWNER_LIMITS.line_bytes


# --- documentation ------------------------------------------------------------------------------


def _sections() -> dict[str, str]:
    parts = re.split(r"^### `([a-z./]+)`$", _PROTOCOL, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_method_has_a_section_and_no_other_has() -> None:
    methods = {str(m) for table in (AppMethod, OwnerMethod, HostedMethod) for m in table}
    assert set(_sections()) == methods


_PARAMETERS: dict[str, type[Message]] = {
    "authenticate": wire.Authenticate,
    "ask": wire.Ask,
    "quote": wire.Ask,
    "notify": wire.Notify,
    "propose": wire.Propose,
    "send": wire.Send,
    "inbox.remove": owner_wire.InboxRemove,
    "events.tail": owner_wire.EventsTail,
    "epoch.new": owner_wire.EpochNew,
    "audit.distance": owner_wire.AuditDistance,
    "policy.apply": owner_wire.PolicyApply,
    "remember": owner_wire.Remember,
    "memory.propose": owner_wire.MemoryPropose,
    "memory.list": owner_wire.MemoryOf,
    "memory.show": owner_wire.MemoryAt,
    "memory.edit": owner_wire.MemoryEdit,
    "memory.move": owner_wire.MemoryMove,
    "memory.forget": owner_wire.MemoryForget,
    "memory.search": owner_wire.MemorySearch,
    "unlock": owner_wire.Unlock,
    "ask.owner": owner_wire.AskOwner,
    "ask.as": owner_wire.AskAs,
    "history.list": owner_wire.HistoryList,
    "history.show": owner_wire.HistoryShow,
    "history.forget": owner_wire.HistoryForget,
    "tell": owner_wire.Tell,
    "apps.grant": owner_wire.AppName,
    "apps.revoke": owner_wire.AppName,
    "apps.restart": owner_wire.AppName,
    "start": wire.Begin,
    "event": wire.Event,
}

_RESULTS: dict[str, type[Message]] = {
    "keys.rotate": owner_wire.KeysRotated,
    "ask": wire.Answer,
    "budget": wire.Budget,
    "quote": wire.Budget,
    "vocabulary": wire.Vocabulary,
    "inbox.list": owner_wire.InboxReply,
    "inbox.remove": owner_wire.InboxRemoved,
    "events.tail": owner_wire.EventsReply,
    "epoch.show": owner_wire.EpochReply,
    "epoch.new": owner_wire.EpochReply,
    "epoch.history": owner_wire.EpochHistory,
    "audit.distance": owner_wire.Distance,
    "audit.replay": owner_wire.Replay,
    "status": owner_wire.Status,
    "reload": owner_wire.Reloaded,
    "doctor": owner_wire.DoctorReply,
    "policy.apply": owner_wire.StagedPolicy,
    "remember": owner_wire.Remembered,
    "memory.propose": owner_wire.Proposal,
    "memory.list": owner_wire.MemoryList,
    "memory.show": owner_wire.MemoryItem,
    "memory.edit": owner_wire.Remembered,
    "memory.move": owner_wire.Moved,
    "memory.forget": owner_wire.Forgotten,
    "memory.search": owner_wire.MemoryFound,
    "memory.suggest": owner_wire.MemorySuggestions,
    "policy.lint": owner_wire.LintReply,
    "ledger": owner_wire.LedgerReply,
    "ask.owner": owner_wire.OwnersAnswer,
    "ask.as": owner_wire.Turn,
    "history.list": owner_wire.HistoryListReply,
    "history.show": owner_wire.HistoryTurn,
    "history.forget": owner_wire.Forgotten,
    "tell": owner_wire.TellReply,
    "apps.list": owner_wire.AppsList,
    "apps.grant": owner_wire.AppToken,
}


@pytest.mark.parametrize("method", _sections())
def test_every_field_of_a_method_is_documented(method: str) -> None:
    section = _sections()[method]
    rows = dict(re.findall(r"^\| (parameters|result) \| (.*) \|$", section, re.MULTILINE))
    for row, kinds in (("parameters", _PARAMETERS), ("result", _RESULTS)):
        fields = set(_fields(kinds[method].model_json_schema())) if method in kinds else set()
        if method == "status" and row == "result":
            fields -= {"app", "slots"}  # "as in `apps.list`"
        missing = {field for field in fields if f"`{field}`" not in rows[row]}
        assert not missing


@pytest.mark.parametrize("notification", Notification)
def test_every_notification_has_a_row(notification: Notification) -> None:
    kinds: dict[Notification, type[Message]] = {
        Notification.PROGRESS: wire.Progress,
        Notification.TURN: owner_wire.TurnStarted,
        Notification.CANCELLED: wire.CancelledNotice,
    }
    [fields] = re.findall(rf"^\| `{notification}` \| (.*?) \|", _PROTOCOL, re.MULTILINE)
    assert fields == ", ".join(f"`{name}`" for name in kinds[notification].model_fields)


@pytest.mark.parametrize("document", ["protocol", "apps"])
def test_every_kind_of_answer_is_documented(document: str) -> None:
    text = (Path(__file__).parents[2] / "docs" / f"{document}.md").read_text(encoding="utf-8")
    assert all(f"`{kind}`" in text for kind in AnswerKind)


def test_every_method_with_fields_is_checked_against_its_section() -> None:
    """What is left out of the two tables above has neither parameters nor a result of its own."""
    methods = {str(m) for table in (AppMethod, OwnerMethod, HostedMethod) for m in table}
    without = {
        "stop",
        "lock",
        "unlock",
        "authenticate",
        "apps.revoke",
        "apps.restart",
        "start",
        "event",
        "ping",
    }
    without |= {"notify", "propose", "send"}
    assert set(_RESULTS) == methods - without


def test_every_kind_of_event_is_documented() -> None:
    assert all(f"`{kind}`" in _sections()["event"] for kind in EventKind)


@pytest.mark.parametrize(
    ("row", "app", "owner"),
    [
        ("bytes in a line, with its newline", APP_LIMITS.line_bytes, OWNER_LIMITS.line_bytes),
        ("arrays and objects around a value", APP_LIMITS.depth, OWNER_LIMITS.depth),
        ("requests in flight on a connection", APP_LIMITS.in_flight, OWNER_LIMITS.in_flight),
        ("connections open at a time", MOST_CONNECTIONS, MOST_CONNECTIONS),
        (
            "seconds to authenticate",
            Patience().authenticate_seconds,
            Patience().authenticate_seconds,
        ),
        (
            "seconds from the first byte of a line to its newline",
            APP_LIMITS.line_seconds,
            OWNER_LIMITS.line_seconds,
        ),
        (
            "seconds in which the client must make room for a line",
            APP_LIMITS.write_seconds,
            OWNER_LIMITS.write_seconds,
        ),
    ],
)
def test_documented_limits_are_the_real_ones(row: str, app: float, owner: float) -> None:
    assert f"| {row} | {app:,.0f} | {owner:,.0f} |" in _PROTOCOL


def test_documented_pace_is_the_real_one() -> None:
    pace = (
        f"| lines a second that are taken, after the first {APP_LIMITS.burst}; what is more waits"
    )
    assert f"{pace} | {APP_LIMITS.lines_a_second:.0f} | any |" in _PROTOCOL
    assert OWNER_LIMITS.lines_a_second is None


def test_documented_client_limit_is_the_real_one() -> None:
    assert f"{CLIENT_LIMITS.line_bytes // 2**20} MiB" in _PROTOCOL
