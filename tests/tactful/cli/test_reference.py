"""`docs/cli.md` says what the program says."""

import re
from pathlib import Path
from typing import Any

import typer

from tactful.cli.main import app
from tactful.cli.reference import reference
from tactful.errors import ERRORS
from tactfuld.settings_table import all_settings

DOCUMENT = Path(__file__).parents[3] / "docs" / "cli.md"


def commands_of(child: Any) -> dict[str, Any]:
    """The commands of a group by name, the group itself under "" where it is one."""
    below = dict(getattr(child, "commands", {}))
    return {"": child, **below} if getattr(child, "invoke_without_command", not below) else below


def test_the_document_is_what_the_commands_say() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == reference(), (
        "run: python -m tactful.cli.reference > docs/cli.md"
    )


def test_every_command_option_and_exit_status_is_in_it() -> None:
    document = reference()
    for kind in ERRORS:
        assert f"| {kind.exit_status} | `{kind.code}` |" in document
    root = typer.Context(typer.main.get_command(app), info_name="tactful")
    children = getattr(root.command, "commands", {})
    leaves = {
        f"{name} {below}".strip(): command
        for name, child in children.items()
        for below, command in commands_of(child).items()
    }
    assert set(leaves) == {
        "init", "start", "stop", "status", "demo", "remember", "memory list", "memory accept",
            "memory migrate",
            "memory show", "memory search", "memory suggest", "memory edit", "memory move",
            "memory forget", "doctor", "ledger", "tell", "backup", "restore",
            "purge",
        "apps list", "apps grant", "apps revoke", "apps quota", "apps restart", "apps logs",
        "apps show", "apps enable", "apps disable", "apps add", "apps update", "apps remove",
        "apps set",
        "paths", "ledger restore",
        "epoch show", "epoch new", "epoch history", "audit distance", "audit odds", "audit replay",
        "policy check", "policy lint", "policy apply", "completion", "ask", "lock", "unlock",
        "recover", "policy diff", "policy explain", "policy schema",
        "policy init", "policy edit", "policy rollback",
        "key show", "key change", "key rotate", "key recovery",
        "tui",
        "history list", "history show", "history forget",
        "inbox", "inbox accept", "inbox dismiss", "events tail",
        "model list", "model info", "model install", "model pull", "model use", "model remove",
        "config list", "config get", "config set", "config unset",
    }  # fmt: skip
    assert document.count("\n`data`: ") == len(leaves)
    for name, command in leaves.items():
        assert f"### `tactful {name}" in document
        for parameter in command.params:
            assert any(option in document for option in parameter.opts) or (
                parameter.metavar in document
            )


def test_every_setting_is_in_it_with_type_default_and_when_it_holds() -> None:
    document = reference()
    for setting in all_settings():
        (row,) = re.findall(rf"^\| `{re.escape(setting.key)}` \|.*$", document, re.MULTILINE)
        when = "at once" if setting.at_once else "at the next start"
        for told in (setting.takes, setting.meaning, f"| {when} |"):
            assert told in row


def test_every_command_takes_profile_and_json() -> None:
    root = typer.main.get_command(app)
    for child in getattr(root, "commands", {}).values():
        for command in commands_of(child).values():
            options = {option for parameter in command.params for option in parameter.opts}
            assert {"--profile", "--json"} <= options, command.name
