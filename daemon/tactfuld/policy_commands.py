"""`one-shot policy-...` and `apps-quota`: the owner's policy file, without a daemon.

Decides what each tells. What is *not* here: reading a policy (`policy.loading`), what a difference
means (`policy.comparison`), editing the file (`policy_file`). None takes the daemon's lock, so all
work while it runs; it notices by itself that the file was changed.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from tactful.errors import AlreadyExists, Denied, NotFound
from tactful.profile import Profile
from tactful_core.layout import Slot
from tactful_core.promises import Grant, Promises
from tactful_core.values import AppId
from tactful_policies import SCHEMA_FILE, STARTERS, schema_text, starter_text
from tactfuld.fused_explanation import fused_explained
from tactfuld.inference.embedder import WordLlamaEmbedder
from tactfuld.initialising import write_new
from tactfuld.owners_file import typed_value
from tactfuld.policy.comparison import changes
from tactfuld.policy.document import PolicyDocument
from tactfuld.policy.errors import PolicyError
from tactfuld.policy.explanation import explained
from tactfuld.policy.loading import load_document, parse_document
from tactfuld.policy.promises import promises_of
from tactfuld.policy.record import RECORD_FILE, read_record
from tactfuld.policy.schema import policy_schema
from tactfuld.policy.summary import summary
from tactfuld.policy.telling import nearest_starter, telling
from tactfuld.policy_file import remove_quota, set_quota, write_policy
from tactfuld.policy_versions import versions, versions_kept
from tactfuld.problems import FileRefusedError, dotted, shown
from tactfuld.router import Router
from tactfuld.settings import load_settings
from tactfuld.yaml_file import read_text

NAMES = frozenset(
    {
        "policy-check",
        "policy-diff",
        "policy-explain",
        "policy-init",
        "policy-schema",
        "policy-versions",
        "policy-write",
        "apps-quota",
    }
)

AddParser = Callable[[str, str], argparse.ArgumentParser]


def add_policy_commands(add: AddParser) -> None:
    """Their arguments; `add` makes a command from its name and help."""
    checked = add("policy-check", "read a policy")
    checked.add_argument("file", type=Path, nargs="?", default=None, metavar="FILE")
    compared = add("policy-diff", "compare two policies")
    compared.add_argument("old", type=Path, nargs="?", default=None, metavar="OLD")
    compared.add_argument("new", type=Path, nargs="?", default=None, metavar="NEW")
    told = add("policy-explain", "what a question would read and cost")
    told.add_argument("--app", required=True)
    told.add_argument("--query", required=True)
    add("policy-schema", "the schema for editors")
    begun = add("policy-init", "write a starter policy")
    begun.add_argument("--starter", required=True)
    written = add("policy-write", "replace the policy")
    written.add_argument("--file", type=Path, required=True)
    written.add_argument("--instead-of", type=Path, default=None)
    add("policy-versions", "list the versions that are kept")
    limited = add("apps-quota", "limit an app's use of a cap")
    limited.add_argument("--app", required=True)
    limited.add_argument("--attribute", required=True)
    limited.add_argument("--value", default=None)


def run_policy_command(profile: Profile, arguments: argparse.Namespace) -> dict[str, object]:
    """What the command tells.

    Raises:
        TactfulError: there is no such policy, or it is not in order.
    """
    match arguments.one_shot:
        case "policy-diff":
            return _compared(profile, arguments.old, arguments.new or profile.policy_file)
        case "policy-schema":
            return policy_schema()
        case "policy-explain":
            promises = promises_of(_document(profile.policy_file))
            tokens = load_settings(profile.settings_file).answer.max_tokens
            return _explained(promises, arguments.app, arguments.query, tokens)
        case "policy-init":
            return _begun(profile, arguments.starter)
        case "policy-write":
            return _written(profile, arguments.file, arguments.instead_of)
        case "policy-versions":
            return {"versions": _versions(profile)}
        case "apps-quota":
            return _limited(profile, arguments.app, arguments.attribute, arguments.value)
        case _:
            return _checked(arguments.file or profile.policy_file)


def _document(path: Path) -> PolicyDocument:
    if not path.exists():
        raise NotFound(
            f"There is no policy {path}. Check the path, or make a profile with `tactful init`."
        )
    return load_document(path)


def _checked(path: Path) -> dict[str, object]:
    document = _document(path)
    starters = {name: parse_document(starter_text(name), source=name) for name in STARTERS}
    name = nearest_starter(document, starters)
    warned = telling(document, None if name is None else starters[name])
    return {
        "file": str(path),
        **summary(document),
        "starter": name,
        "warnings": [asdict(each) for each in warned],
    }


def _compared(profile: Profile, old: Path | None, new: Path) -> dict[str, object]:
    after = _document(new)
    before = _document(old) if old is not None else _in_force(profile)
    return {
        "old": None if old is None else str(old),
        "new": str(new),
        "changes": [asdict(change) for change in changes(before, after)],
    }


def _in_force(profile: Profile) -> PolicyDocument:
    record = read_record(profile.state / RECORD_FILE)
    if not record:
        raise NotFound(
            "No policy was in force in this profile yet, so there is nothing to compare with. Name "
            "the older policy: tactful policy diff OLD NEW."
        )
    return record[-1].document


def _explained(promises: Promises, name: str, query: str, tokens: int) -> dict[str, object]:
    app = AppId(name)
    grant = promises.grant(app)
    if grant is None:
        raise NotFound(f"The policy names no app {shown(name)}. Add it under 'apps'.")
    if not grant.slots:
        raise Denied(f"The policy lets {name} ask about no slot. Grant one under 'apps'.")
    slots = _asked_about(promises, grant, query)
    fused = fused_explained(promises, app, slots, tokens)
    return {
        "app": name,
        "query": query,
        "policy": promises.digest,
        "slots": [asdict(explained(promises, app, slot)) for slot in slots],
        "fused": None if fused is None else asdict(fused),
    }


def _asked_about(promises: Promises, grant: Grant, query: str) -> tuple[Slot, ...]:
    router = Router(WordLlamaEmbedder.load())
    router.prepare(promises.layout.slots)
    return asyncio.run(router.active_slots(query, grant, None))


def _limited(profile: Profile, app: str, attribute: str, value: str | None) -> dict[str, object]:
    path = profile.policy_file
    before = _document(path)
    with versions_kept(profile):
        if value is None:
            remove_quota(path, app, attribute)
        else:
            key = dotted(("apps", app, "quota", attribute))
            set_quota(path, app, attribute, typed_value(value, key, PolicyError))
    after = load_document(path)
    quota = after.apps[app].quota.get(attribute)
    return {
        "file": str(path),
        "app": app,
        "attribute": attribute,
        "quota": None if quota is None else float(quota),
        "changes": [asdict(change) for change in changes(before, after)],
    }


def _begun(profile: Profile, starter: str) -> dict[str, object]:
    if starter not in STARTERS:
        known = ", ".join(STARTERS)
        raise NotFound(f"There is no starter policy named {shown(starter)}. There are: {known}.")
    if not profile.config.is_dir():
        raise NotFound(
            f"There is no folder {profile.config}; make the profile with `tactful init`."
        )
    path = profile.policy_file
    file = path.with_name(f"policy-{starter}.yaml") if path.exists() else path
    if file.exists():
        raise AlreadyExists(f"{file} is there already; nothing was changed.")
    with ExitStack() as undo:
        write_new(file, starter_text(starter), undo)
        write_new(path.with_name(SCHEMA_FILE), schema_text(), undo)
        undo.pop_all()
    return {"file": str(file), "starter": starter, "is_policy": file == path}


def _written(profile: Profile, file: Path, instead_of: Path | None) -> dict[str, object]:
    before = None if instead_of is None else instead_of.read_bytes()
    try:
        text = read_text(file)
    except FileNotFoundError as error:
        raise NotFound(f"There is no file {file}.") from error
    except FileRefusedError as error:
        raise PolicyError(error.problems) from error
    with versions_kept(profile):
        write_policy(profile.policy_file, text, instead_of=before)
    return {"file": str(profile.policy_file)}


def _versions(profile: Profile) -> list[dict[str, object]]:
    path = profile.policy_file
    now = path.read_bytes() if path.exists() else None
    return [
        {
            "version": version.number,
            "file": str(version.file),
            "kept_at": version.kept_at,
            "is_policy": version.file.read_bytes() == now,
        }
        for version in versions(profile)
    ]
