"""The command line's reference, `docs/cli.md`, from the commands themselves.

`python -m tactful.cli.reference` prints it; a test compares it with the file. Decides its form.
What is *not* here: any word about what a command does; those stand at the commands.
"""

from __future__ import annotations

import inspect
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from tactful.cli.audit import MISMATCH
from tactful.cli.config import written
from tactful.cli.doctor import NOT_WELL
from tactful.cli.main import BROKEN_PIPE, INTERRUPTED, INTERRUPTED_CODE, app
from tactful.cli.process import Target, one_shot
from tactful.errors import ERRORS
from tactful.profile import Profile

_INTRODUCTION = """\
# `tactful`: the command line

<!-- Printed by `python -m tactful.cli.reference`; a test compares. Do not edit by hand. -->

Every command takes these, after the command or in front of it:

| option | |
| --- | --- |
| `--profile DIR` | keep everything under one folder; not for `demo`, which makes its own |
| `--json` | print one line of JSON |
| `--help` | explain the command |

With `--json`, standard output is exactly one line, also when the command fails:

```
{"data": ...}
{"error": {"code": "daemon_down", "message": "..."}}
```

Where a file of yours was refused (`policy_refused`), `error` also has `problems`, a list: each with
`file`, `line` and `column` (from 1; 0 where the file as a whole is meant), `key` (dotted, or empty)
and `message`.

Without a terminal there are no control characters; `NO_COLOR` turns colours off on one. Progress
is shown on standard error, only on a terminal.

A reply, in what follows, is that of the owner's method in [protocol.md](protocol.md).

## Environment

| variable | meaning |
| --- | --- |
| `TACTFUL_PROFILE` | the same as `--profile` |
| `TACTFUL_PASSPHRASE` | unlocks memory; removed from the environment before a child is started |
| `NO_COLOR` | no colours |
| `HF_TOKEN` | opens repositories of the Hugging Face hub that ask for a token |
| `HF_ENDPOINT` | another address than `https://huggingface.co` |
"""

_SETTINGS = """\
## Settings

They stand in `settings.yaml` (`tactful paths` says where) and are changed there or with
`tactful config`. None of them loosens a promise. When the file changes, a running daemon takes over
at once what it can, and `tactful status` tells what waits for its next start; a file with a mistake
changes nothing until it is mended.

| setting | takes | default | takes effect | meaning |
| --- | --- | --- | --- | --- |"""

_DATA = {
    "init": "`config`, `data`, `state` (folders), `starter`, `sandbox`, `sandbox_problem`, "
    "`model_problem` (sentences, or null), `recovery_phrase` (this once; or null)",
    "start": "`pid`, `log`",
    "stop": "`stopped`, `pid`",
    "status": "the reply of `status`, and `ledger`: the reply of `ledger`, or null while locked",
    "demo": "`turns`: `turn`, `query`, `answer`, and `selections`: `slot`, `view`, `epsilon` "
    "(six decimals), `charged` (in the policy's order), `fallback`; `ledgers`: `spent` and `cap` "
    "of each attribute",
    "remember": "the reply of `remember`",
    "memory list": "the reply of `memory.list`",
    "doctor": "`checks`: each with `name`, `state` (`ok`, `problem`, `unknown` or "
    "`not_applicable`), `detail`, `advice` (may be empty); [doctor.md](doctor.md) lists them",
    "memory accept": "`memories` (how many there are)",
    "memory migrate": "`changes`: each with `shelf`, `positions_before`, `positions_after`, "
    "`tokens_before`, `tokens_after` (null where there is no such shelf), `uncovers`; `memories`, "
    "`migrated`, `exhausts`",
    "ledger": "the reply of `ledger`; with `--watch` one such line at the beginning and one at "
    "each change, and one with `error` when the daemon has gone",
    "memory show": "the reply of `memory.show`",
    "memory search": "the reply of `memory.search`",
    "memory suggest": "the reply of `memory.suggest`",
    "policy lint": "the reply of `policy.lint`",
    "memory edit": "the reply of `memory.edit`",
    "memory move": "the reply of `memory.move`",
    "memory forget": "the reply of `memory.forget`",
    "ledger restore": "`file`, `appended` (how many entries were missing), `entries` (how many "
    "there are now), `epoch`, `exhausted` (until the next epoch), `notices` (sentences), `lines`: "
    "each with `attribute`, `spent`, `cap`, `lifetime`",
    "epoch show": "the reply of `epoch.show`; its `lines` also have `spent`, `cap`, `promised`, "
    "`closed`, `exposed` of `ledger`",
    "epoch new": "the reply of `epoch.new`, and `before`: the reply of `epoch.show` that it was "
    "decided on",
    "epoch history": "the reply of `epoch.history`, and `lifetime` of each attribute",
    "audit distance": "`positions`, and the reply of `audit.distance`",
    "audit odds": "`epoch`, `prior_percent` (a belief), `lines`: each with `attribute`, `exposed`, "
    "and of views `seen`, `promised`, `lifetime`: each with `epsilon`, `most_percent` and "
    "`least_percent` (what the belief can become), or null where no bound holds; `with_fused` "
    "(`null`: no text is fused): the same three of views and fused text together, which hold but "
    "for a probability of `delta`",
    "audit replay": "the reply of `audit.replay`",
    "ask": "the reply of `ask.owner`; with `--as`, that of `ask.as`",
    "history list": "the reply of `history.list`",
    "history show": "the reply of `history.show`",
    "history forget": "the reply of `history.forget`",
    "inbox": "the reply of `inbox.list`",
    "inbox accept": "`accepted`, and the reply of `remember`",
    "inbox dismiss": "the reply of `inbox.remove`",
    "events tail": "the reply of `events.tail`; with `--follow`, a line for each of its `events`",
    "tell": "the reply of `tell`",
    "config list": "`file`, `settings`: each with `key`, `value`, `default`, `origin` (`default`, "
    "or the file and line), `takes`, `meaning`, `at_once`",
    "config get": "one entry of `settings` of `config list`",
    "config set": "the setting as in `config get`, and `effect`: `now`, `at_start` (of the "
    "daemon), `refused` (the daemon found a problem in the file) or `unknown`",
    "config unset": "as for `config set`",
    "apps list": "the reply of `apps.list`",
    "apps grant": "the reply of `apps.grant`, and `socket`",
    "apps revoke": "`revoked`",
    "apps restart": "`restarted`",
    "apps logs": "`app`, `file`, `lines`",
    "apps show": "`app`, `installed` (`own`: in an environment of its own; `beside`: where tactful "
    "is; `null`: not), `granted` (`null`: the policy does not name it), with `slots`, `events`, "
    "`folders` (`read` or `write` by path), `quota`; if it is installed, `title`, `version`, "
    "`settings` (each with `key`, `title`, `default`, `choices`, `value`) and `asks`: `slots` "
    "(each with `slot`, `fresh`, `known`, `granted`, and `release` as of `policy explain`), "
    "`events` (each with `event`, `granted`), `timers` (each with `timer`, `cron`, `granted`), "
    "`folders` (each with `purpose`, `mode`); with an environment of its own also `package`, "
    "`package_version`, `source`, `contents` (versions by name)",
    "apps add": "as for `apps show`",
    "apps update": "as for `apps show`, and `before` (the version), `more` (what it did not ask "
    "for before, in words), `restarted`, `changes` as of `policy diff`",
    "apps remove": "`app`, `changes` as of `policy diff`, `kept` (its own folder, or `null`)",
    "apps enable": "`file`, `app`, `granted` as of `apps show`, `changes` as of `policy diff`",
    "apps set": "`file`, `app`, `key`, `value` (`null`: the app's own default)",
    "apps disable": "as for `apps enable`",
    "apps quota": "`file`, `app`, `attribute`, `quota` (`null`: none), `changes` as of `policy "
    "diff`",
    "policy init": "`file`, `starter`, `is_policy` (false: it is not in use)",
    "policy edit": "`file`, `changed`, `changes` as of `policy diff`",
    "policy rollback": "`versions`: each with `version` (a number), `file`, `kept_at` (seconds "
    "since 1970), `is_policy` (`policy.yaml` is so now); with a version, `file`, `version`, "
    "`changed`, `changes` as of `policy diff`",
    "policy apply": "`written`, `at_tick`, `tick_at`, `at_epoch`, `other_shelves`, `at_once`: as "
    "in `policy.apply` of the protocol, after what was asked for",
    "policy check": "`file`, `policy` (names this version), `positions`; `slots`: each with "
    "`slot`, `shelves`, `positions`, `views` (how many); `attributes`: each with `attribute`, "
    "`cap`, `positions`; `apps`: each with `app`, `slots`; `unused`: keys that this version reads "
    "and does not use yet; `starter`: the one that it is nearest to, or `null`; `warnings`: what "
    "it tells about its owner, each with `key`, `sentence`",
    "policy schema": "the schema: draft-07",
    "policy explain": "`app`, `query`, `policy` (names this version); `slots`: each with `slot`, "
    "`shelves` (what is read), `positions`, `unprotected`, `views` (how many), `generic` (how it "
    "is answered at the cap), `release` (`null`: nothing is drawn): `epsilon`, `payers` (each with "
    "`attribute`, `cap`), `most` (in an epoch), `lasting`, `candidates`, `right` (probability); "
    "`fused` (`null`: no text can be fused from these): `contexts`, `payers` (each with "
    "`attribute`, `epsilon` of an epoch, `answer`: that of a first one), `left_out` (shelves), "
    "`delta`, `tokens` of an answer, `epoch_tokens`, `tokens_per_second` (stated), `seconds`",
    "policy diff": "`old` (`null`: what was last in force), `new`; `changes`: each with `key`, "
    "`direction` (`tighter`, `looser` or `other`), `when` (`at_once`, `tick`, `epoch`, or "
    "`other_shelves`: not while memory lies on the old ones), `sentence`",
    "completion": "`shell`, `script`",
    "model list": "`use`; `installed`: each a *model*, which is `name`, `path`, `size` (bytes), "
    "`in_use`, and `source`, `sha256`, `vouched_by` (`tactful` or `hub`), `licence`, "
    "`installed_at` (seconds since 1970), null where not known; `catalogue`: each with `name`, "
    "`title`, `parameters`, `source`, `licence`, `terms`, `size`, `sha256`, `suits`, `installed`",
    "model info": "`model`, and `title`, `architecture`, `trained_context` as the file tells; "
    "`context` (tokens), `memory` and `free_memory` (bytes), `loaded_before`, `problem`",
    "model install": "`model`, `fetched` (false: it was there already)",
    "model pull": "`model`, `fetched` (false: it was there already)",
    "model use": "`use`, `before` (what the settings named), `path`",
    "model remove": "`name`, `path`, `size`",
    "lock": "`locked`: true",
    "unlock": "`locked`: false",
    "key show": "`source` (`keyring`, `credential`, `passphrase`), `description`, `since`, "
    "`recovery_since` (`null` without a phrase), `keys`: `since` and `changing` of `memory`, "
    "`ledger` and `history`; `memory_seals` (rows that memory's key has sealed), `most_seals`",
    "key change": "`description`",
    "key rotate": "`rotated`: names of keys",
    "key recovery": "`recovery_phrase`, this once",
    "recover": "`description`",
    "restore": "`place` (`empty` where there was no profile, else `same`), `made`, `memories` "
    "(`null` where memory was left), `appended` (entries that the ledger lacked), `entries`, "
    "`epoch`, `exhausted`, `notices`, `lines` as of `ledger restore`, `recovery_phrase` (of a new "
    "profile, this once)",
    "purge": "`kept` (paths that are not ours), `config_kept`, `out_of_reach` (sentences)",
    "backup": "`file`, `size` in bytes, `made`, `memories`, `entries`, `turns` (`null` without "
    "history), `lock` (`recovery` or `passphrase`); of `backup verify` without `lock`, and with "
    "`store` (its id) and `key_source` (where the profile's key was)",
    "paths": "a path for each name",
    "tui": "none; it is refused with `--json`",
}
"""What stands under `data`; replies are those of the owner's methods in docs/protocol.md."""

_COMMON = ("--profile", "--json", "--help")

_OTHER_STATUSES = {
    0: ("", "The command did what it was asked to."),
    NOT_WELL: ("", "`doctor` found something that is not well; it prints its data all the same."),
    MISMATCH: ("", "`audit replay` found that the ledger's entries do not give its sums."),
    INTERRUPTED: (INTERRUPTED_CODE, "Ctrl-C, or the end of input at a prompt."),
    BROKEN_PIPE: ("", "Whoever read the output has gone, as `head` does."),
    129: ("", "The terminal was closed while an editor was open; the file was deleted first."),
    143: ("", "The demo or an edit was told to terminate; it cleaned up first."),
}


def reference() -> str:
    """The whole document."""
    commands = "\n".join(_command(context) for context in _walk(_root()))
    return f"{_INTRODUCTION}\n## Commands\n\n{commands}\n{_settings()}\n{_exit_statuses()}"


def _root() -> typer.Context:
    return typer.Context(typer.main.get_command(app), info_name="tactful")


def _walk(context: typer.Context) -> Iterator[typer.Context]:
    children = getattr(context.command, "commands", {})
    if getattr(context.command, "invoke_without_command", not children):
        yield context
    for name, child in children.items():
        yield from _walk(typer.Context(child, info_name=name, parent=context))


def _command(context: typer.Context) -> str:
    command = context.command
    usage = [context.command_path]
    rows = []
    for parameter in command.get_params(context):
        metavar = parameter.metavar or ""
        is_option = parameter.param_type_name == "option"
        if is_option and parameter.opts[0] in _COMMON:
            continue
        if not is_option:
            usage.append(metavar if parameter.required else f"[{metavar}]")
        label = f"{' '.join(parameter.opts)} {metavar}".strip() if is_option else metavar
        rows.append(f"| `{_in_cell(label)}` | {_explained(parameter)} |")
    text = _as_markdown(inspect.cleandoc(command.help or "").split("\f")[0].strip())
    head = ["", "| argument or option | |", "| --- | --- |"] if rows else []
    data = _DATA.get(context.command_path.removeprefix("tactful "))
    told = ["", f"`data`: {data}."] if data else []
    shown = _examples(getattr(command, "epilog", None) or "")
    return "\n".join([f"### `{' '.join(usage)}`", "", text, *head, *rows, *shown, *told, ""])


def _examples(epilog: str) -> list[str]:
    lines = [line.strip() for line in epilog.splitlines()[2:]]
    return ["", "```", *lines, "```"] if lines else []


def _as_markdown(text: str) -> str:
    """A paragraph that typer is told not to wrap stands in a block of its own."""
    return re.sub(r"\n\x08\n(.+?)(?=\n\n|\Z)", r"\n```\n\1\n```", text, flags=re.DOTALL)


def _explained(parameter: object) -> str:
    text = str(getattr(parameter, "help", None) or "").rstrip(".")
    default = getattr(parameter, "default", None)
    if getattr(parameter, "show_default", False) and default not in (None, "", False):
        text += f" (default: `{default}`)"
    return _in_cell(text)


def _in_cell(text: str) -> str:
    return text.replace("|", "\\|")


def exit_statuses() -> dict[int, dict[str, str]]:
    """The codes that end with each status, and what they mean; the code is empty without error."""
    found = {status: {code: meaning} for status, (code, meaning) in _OTHER_STATUSES.items()}
    for kind in ERRORS:
        meaning = inspect.cleandoc(kind.__doc__ or "").splitlines()[0]
        found.setdefault(kind.exit_status, {})[kind.code] = meaning
    return found


def _settings() -> str:
    """What `tactfuld` says about settings where there is no file."""
    with tempfile.TemporaryDirectory() as folder:
        target = Target(Profile.at(Path(folder)), Path(folder))
        rows: Any = one_shot(target, ["config-list"], None, lambda *_: None)["settings"]
    lines = [
        f"| `{row['key']}` | {_in_cell(row['takes'])} | `{written(row['default'])}` "
        f"| {'at once' if row['at_once'] else 'at the next start'} | {_in_cell(row['meaning'])} |"
        for row in rows
    ]
    return "\n".join([_SETTINGS, *lines, ""])


def _exit_statuses() -> str:
    rows = exit_statuses()
    lines = [
        f"| {status} | {f'`{code}`' if code else ''} | {meaning} |"
        for status in sorted(rows)
        for code, meaning in rows[status].items()
    ]
    return "\n".join(
        [
            "## Exit statuses",
            "",
            "The code is what stands under `error.code` with `--json`.",
            "",
            "| status | code | meaning |",
            "| --- | --- | --- |",
            *lines,
            "",
        ]
    )


if __name__ == "__main__":
    sys.stdout.write(reference())
