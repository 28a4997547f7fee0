"""`tactful apps show`, `enable`, `disable` and `set`: what an app asks for, and what it gets.

Decides what is shown and asked. What is *not* here: what an app says of itself, and how the policy
is edited (`tactfuld`).

Invariant: nothing is granted that the owner did not say, one by one or with `--all`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tactful.cli.help_page import examples
from tactful.cli.invocation import Invocation, JsonOption, ProfileOption, invocation
from tactful.cli.policy_child import ask_child

if TYPE_CHECKING:
    from rich.console import Console

AppArgument = Annotated[str, typer.Argument(metavar="APP", help="The app's name in the policy.")]

AllOption = Annotated[
    bool,
    typer.Option(
        "--all",
        help="Grant every slot and kind of events that it asks for; folders want to be named.",
        show_default=False,
    ),
]


def register(group: typer.Typer) -> None:
    group.command("show", epilog=examples("apps show meals"))(show)
    group.command(
        "enable",
        epilog=examples("apps enable meals", "apps enable meals --slot food --event message"),
    )(enable)
    group.command(
        "set", epilog=examples("apps set meals people 3", "apps set meals people --remove")
    )(set_)
    group.command("disable", epilog=examples("apps disable meals"))(disable)


def show(
    context: typer.Context,
    app: AppArgument,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what an app asks for, and what it is granted.

    It is asked in the sandbox, without a connection to anything.
    """
    call = invocation(context, profile, as_json)
    data = _shown(call, app)
    call.output.show(data, lambda console: _show_app(console, data))


def enable(
    context: typer.Context,
    app: AppArgument,
    slot: Annotated[
        list[str] | None,
        typer.Option("--slot", metavar="SLOT", help="Let it ask about this slot; repeat it."),
    ] = None,
    event: Annotated[
        list[str] | None,
        typer.Option("--event", metavar="KIND", help="Tell it of these events; repeat it."),
    ] = None,
    folder: Annotated[
        list[str] | None,
        typer.Option(
            "--folder", metavar="PATH:read|write", help="Open this folder to it; repeat it."
        ),
    ] = None,
    everything: AllOption = False,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Grant an app what it asks for, or part of it.

    On a terminal it shows what the app asks for and what that would cost, and asks one by one.
    With options it grants exactly those. This edits policy.yaml; comments and all the rest stay as
    they are. A running daemon takes a new grant over at its next daily tick.
    """
    from tactful.cli.policy_diff import show_changes

    call = invocation(context, profile, as_json)
    said = _words(slot, event, folder)
    if said and not everything:
        data = ask_child(call, ["apps-enable", f"--app={app}", *said], "changing the policy")
    else:
        found = _shown(call, app)
        _require_word(call, found, everything)
        if not everything:
            show_wishes(call.output.notes, found)
        data = grant_what_is_wanted(call, found, everything=everything, also=said)
    call.output.show(data, lambda console: show_changes(console, data["changes"]))


def disable(
    context: typer.Context,
    app: AppArgument,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take back everything that an app was granted.

    A running daemon ends it at once. It stays installed, and none of its code runs for this.
    """
    from tactful.cli.policy_diff import show_changes

    call = invocation(context, profile, as_json)
    data = ask_child(call, ["apps-disable", f"--app={app}"], "changing the policy")
    call.output.show(data, lambda console: show_changes(console, data["changes"]))


def _require_word(call: Invocation, found: dict[str, Any], everything: bool) -> None:
    """Raises `UsageError` unless the owner says what to grant."""
    from tactful.errors import UsageError

    if found.get("asks") is None:
        raise UsageError(
            f"The app {found['app']} is not installed, so it does not say what it asks for. Grant "
            "it something with --slot."
        )
    if not is_said(call, everything):
        raise UsageError(
            "Without a terminal, and with --json, say what to grant: --slot, --event, --folder, "
            "or --all."
        )


def set_(
    context: typer.Context,
    app: AppArgument,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The setting, as the app names it.")],
    value: Annotated[
        str | None, typer.Argument(metavar="VALUE", help="What it is to be.", show_default=False)
    ] = None,
    remove: Annotated[
        bool,
        typer.Option("--remove", help="Go back to the app's own default.", show_default=False),
    ] = False,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set one of an app's own settings.

    This edits settings.yaml. A running daemon starts the app anew with it. `tactful apps show` has
    the list.
    """
    from tactful.errors import UsageError

    if (value is None) != remove:
        raise UsageError("Give either a value or --remove.")
    call = invocation(context, profile, as_json)
    command = ["apps-unset" if remove else "apps-set", f"--app={app}", f"--key={key}"]
    if value is not None:
        command.append(f"--value={value}")
    data = ask_child(call, command, "asking the app")
    call.output.show(data, lambda console: _show_setting(console, data))


def is_said(call: Invocation, everything: bool) -> bool:
    """Whether the owner says what to grant: all of it, or when asked."""
    from tactful.cli.passphrase import can_ask

    return everything or (can_ask() and not call.output.as_json)


def grant_what_is_wanted(
    call: Invocation, found: dict[str, Any], *, everything: bool, also: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Grants what the owner wants of what an app asks for; as `apps-enable` tells it."""
    before = found["granted"] or {"slots": [], "events": [], "folders": {}}
    asks = found["asks"]
    said = [*also]
    said += [
        f"--slot={wish['slot']}"
        for wish in asks["slots"]
        if wish["known"] and (wish["granted"] or everything or _agrees(call, _slot_question(wish)))
    ]
    said += [
        f"--event={wish['event']}"
        for wish in asks["events"]
        if wish["granted"] or everything or _agrees(call, _event_question(wish))
    ]
    if "--event=timer" in said:
        said += [f"--timer={each['timer']}={each['cron']}" for each in asks["timers"]]
    said += _kept(before, asks)
    if not everything:
        said += _named_folders(call, before, asks)
    command = ["apps-enable", f"--app={found['app']}", *dict.fromkeys(said)]
    return ask_child(call, command, "changing the policy")


def show_wishes(console: Console, data: dict[str, Any]) -> None:
    """What an app asks for, a line each, and what a fresh answer would cost."""
    from rich.text import Text

    from tactful.visible_text import visible

    asks = data["asks"]
    if not any(asks.values()):
        console.print("It asks for nothing.")
        return
    console.print("It asks for:")
    for wish in asks["slots"]:
        console.print(Text(f"  answers about {visible(wish['slot'])}{_about(wish)}"))
    for wish in asks["events"]:
        console.print(Text(f"  events of the kind {visible(wish['event'])}{_mark(wish)}"))
    for wish in asks["timers"]:
        line = f"  to be told the time at {visible(wish['cron'])} ({wish['timer']}){_mark(wish)}"
        console.print(Text(line))
    for wish in asks["folders"]:
        console.print(Text(f"  a folder to {wish['mode']}: {visible(wish['purpose'])}"))


def _shown(call: Invocation, app: str) -> dict[str, Any]:
    return ask_child(call, ["apps-show", f"--app={app}"], "asking the app")


def _words(
    slots: list[str] | None, events: list[str] | None, folders: list[str] | None
) -> tuple[str, ...]:
    """The options of the child for what the owner named."""
    from pathlib import Path

    from tactful.errors import UsageError

    said = [f"--slot={name}" for name in slots or ()]
    said += [f"--event={name}" for name in events or ()]
    for text in folders or ():
        path, colon, mode = text.rpartition(":")
        if not colon or mode not in {"read", "write"}:
            raise UsageError("A folder is granted as PATH:read or PATH:write.")
        whole = path if path.startswith("~") else str(Path(path).absolute())
        said.append(f"--folder={whole}:{mode}")
    return tuple(said)


def _kept(before: dict[str, Any], asks: dict[str, Any]) -> list[str]:
    """What it has already and does not ask for stays: the owner granted it by hand."""
    asked = {wish["slot"] for wish in asks["slots"]}
    heard = {wish["event"] for wish in asks["events"]}
    kept = [f"--slot={slot}" for slot in before["slots"] if slot not in asked]
    kept += [f"--event={event}" for event in before["events"] if event not in heard]
    return kept + [f"--folder={path}:{mode}" for path, mode in before["folders"].items()]


def _named_folders(call: Invocation, before: dict[str, Any], asks: dict[str, Any]) -> list[str]:
    """The folders that the owner types for the app's wishes."""
    from tactful.cli.questions import answer

    said: list[str] = []
    for wish in asks["folders"]:
        question = f"Which folder may it {wish['mode']} ({wish['purpose']})? Return for none: "
        path = answer(call.output.notes, question)
        if path and path not in before["folders"]:
            said += _words(None, None, [f"{path}:{wish['mode']}"])
    return said


def _agrees(call: Invocation, question: str) -> bool:
    from tactful.cli.questions import yes

    return yes(call.output.notes, question)


def _slot_question(wish: dict[str, Any]) -> str:
    return f"Let it ask about {wish['slot']}{_about(wish)}?"


def _event_question(wish: dict[str, Any]) -> str:
    return f"Tell it of events of the kind {wish['event']}?"


def _about(wish: dict[str, Any]) -> str:
    """What answers about a slot would cost, and how many it could use."""
    if not wish["known"]:
        return ": the policy has no such slot"
    release = wish["release"]
    if release is None:
        return f": nothing is charged{_mark(wish)}"
    payers = ", ".join(payer["attribute"] for payer in release["payers"])
    wanted = f"it could use {wish['fresh']}, " if wish["fresh"] else ""
    fresh = "1 fresh answer" if release["most"] == 1 else f"{release['most']} fresh answers"
    price = f"{release['epsilon']:.3f} of the caps of {payers}"
    return f": {wanted}at most {fresh} an epoch, each for {price}{_mark(wish)}"


def _mark(wish: dict[str, Any]) -> str:
    return " (granted)" if wish["granted"] else ""


def _show_setting(console: Console, data: dict[str, Any]) -> None:
    from rich.text import Text

    from tactful.visible_text import visible

    value = "the app's own default" if data["value"] is None else visible(f"{data['value']}")
    console.print(Text(f"{data['key']} of {data['app']} is {value}."))


def _show_app(console: Console, data: dict[str, Any]) -> None:
    from rich.text import Text

    from tactful.visible_text import visible

    if data["installed"] is None:
        console.print(f"{data['app']} is not installed: a program outside, if anything.")
    else:
        console.print(Text(f"{data['app']}: {visible(data['title'])}, {data['version']}"))
        if data["installed"] == "own":
            console.print(
                Text(f"from {visible(data['source'])}, in an environment of its own", style="dim")
            )
        show_wishes(console, data)
        if data["settings"]:
            console.print(f"Its settings (tactful apps set {data['app']} KEY VALUE):")
        for setting in data["settings"]:
            line = f"  {setting['key']} is {setting['value']!r}: {setting['title']}"
            console.print(Text(visible(line)))
    granted = data["granted"]
    if granted is None:
        console.print(f"It is granted nothing: tactful apps enable {data['app']}")
        return
    console.print("It is granted:")
    slots, events = ", ".join(granted["slots"]), ", ".join(granted["events"])
    console.print(Text(f"  slots: {slots or 'none'}; events: {events or 'none'}"))
    for path, mode in granted["folders"].items():
        console.print(Text(f"  to {mode} {visible(path)}"), soft_wrap=True)
    for name, share in granted["quota"].items():
        console.print(Text(f"  at most {share:.3f} of {visible(name)}'s cap"))
