"""The owner's policy file, edited by a program.

Decides when an edit is written: only if the daemon would start with what it makes. What is *not*
here: what a policy may say (`policy.loading`), where in the text an entry stands (`yaml_edit`), how
a file is replaced (`owners_file`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

from tactful.errors import NotFound
from tactfuld.owners_file import edit_entry, replace
from tactfuld.policy.document import PolicyDocument
from tactfuld.policy.errors import PolicyError
from tactfuld.policy.loading import load_document, parse_document
from tactfuld.policy.references import KEYS_OF_EVENTS
from tactfuld.problems import FileRefusedError, shown, suggestion
from tactfuld.yaml_edit import Keys, with_value, without


def set_quota(path: Path, app: str, attribute: str, quota: object) -> None:
    """Lets an app use up so much of an attribute's cap, by the policy file at `path`.

    Args:
        quota: as YAML gives it.

    Raises:
        NotFound: the policy has no such app or attribute.
        PolicyError: the file has problems, or is not in order with this quota.
        OSError: the file cannot be written; it is as it was.
    """
    keys = _quota_of(path, app, attribute)
    _edit(path, keys, partial(with_value, keys=keys, value=quota, source=str(path)))


def remove_quota(path: Path, app: str, attribute: str) -> None:
    """Lets an app use up all of an attribute's cap; raises as `set_quota`."""
    keys = _quota_of(path, app, attribute)
    _edit(path, keys, partial(without, keys=keys, source=str(path)))


def set_app(
    path: Path,
    app: str,
    *,
    slots: tuple[str, ...],
    events: tuple[str, ...],
    folders: Mapping[str, str],
    timers: Mapping[str, str] = MappingProxyType({}),
    check: Callable[[PolicyDocument], None],
) -> None:
    """Grants an app exactly this; its quota, and what else stands there, stays as it is.

    What says which events of a kind there are goes with the kind.

    Args:
        folders: `read` or `write` by path.
        timers: cron expressions by name, of those that are not there yet.
        check: refuses the policy that this makes, by raising.

    Raises:
        PolicyError: the file has problems, or is not in order with these grants.
        OSError: the file cannot be written; it is as it was.
    """
    source, top = str(path), ("apps", app)
    values: dict[str, object] = {"slots": slots, "events": events, "folders": dict(folders)}

    def changed(text: str) -> str:
        given = {key: value for key, value in values.items() if value}
        apps = parse_document(text, source=source).apps
        if app not in apps:
            first = given | ({"timers": dict(timers)} if timers else {})
            return with_value(text, top, first, source=source)
        for name, cron in timers.items():
            if name not in apps[app].timers:
                text = with_value(text, (*top, "timers", name), cron, source=source)
        for key, value in given.items():
            text = _with_new_value(text, (*top, key), value, source)
        untold = [key for kind, key in KEYS_OF_EVENTS.items() if kind not in events]
        for key in (*(values.keys() - given.keys()), *untold):
            text = without(text, (*top, key), source=source)
        if app not in parse_document(text, source=source).apps:
            text = with_value(text, top, {}, source=source)
        return text

    edit_entry(
        path,
        top,
        changed,
        lambda text: check(parse_document(text, source=source)),
        PolicyError,
    )


def remove_app(path: Path, app: str) -> None:
    """Grants an app nothing any more; nothing happens if the policy does not name it.

    Raises:
        PolicyError: the file has problems.
        OSError: the file cannot be written; it is as it was.
    """
    keys = ("apps", app)
    _edit(path, keys, partial(without, keys=keys, source=str(path)))


def _with_new_value(text: str, keys: Keys, value: object, source: str) -> str:
    """A list that stands on lines of its own is written anew; other values are replaced."""
    try:
        return with_value(text, keys, value, source=source)
    except FileRefusedError:
        return with_value(without(text, keys, source=source), keys, value, source=source)


def write_policy(path: Path, text: str, *, instead_of: bytes | None) -> None:
    """Gives the policy file this text; raises also as `owners_file.replace`.

    Raises:
        PolicyError: the text is not in order; the file is as it was.
    """
    parse_document(text, source=str(path))
    replace(path, text, instead_of=instead_of)


def _quota_of(path: Path, app: str, attribute: str) -> Keys:
    document = load_document(path)
    for kind, name, known in (
        ("app", app, document.apps),
        ("attribute", attribute, document.attributes),
    ):
        if name not in known:
            raise NotFound(f"The policy has no {kind} {shown(name)}{suggestion(name, known)}")
    return ("apps", app, "quota", attribute)


def _edit(path: Path, keys: Keys, change: Callable[[str], str]) -> None:
    edit_entry(path, keys, change, partial(parse_document, source=str(path)), PolicyError)
