"""The owner's policy file, edited by a program.

Decides when an edit is written: only if the daemon would start with what it makes. What is *not*
here: what a policy may say (`policy.loading`), where in the text an entry stands (`yaml_edit`), how
a file is replaced (`owners_file`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from tactful.errors import NotFound
from tactfuld.owners_file import edit_entry, replace
from tactfuld.policy.errors import PolicyError
from tactfuld.policy.loading import load_document, parse_document
from tactfuld.problems import shown, suggestion
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
