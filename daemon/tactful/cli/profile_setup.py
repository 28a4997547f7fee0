"""Making a profile: what `tactful init` asks, does and says.

Decides the conversation. What is *not* here: which files a profile has and what is in them
(`tactfuld one-shot init`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from tactful.cli.invocation import Invocation
from tactful.cli.passphrase import Passphrase, ask_for_new, can_ask
from tactful.cli.process import Target, one_shot
from tactful.cli.progress import progress_bar
from tactful.cli.questions import answer
from tactful.errors import ModelFailed, OperatorError, PassphraseNeeded
from tactful.profile import Profile
from tactful.visible_text import visible

NEXT = (
    "start",
    'remember "I avoid sugary food." --shelf food.diet',
    'tell meals "What could I cook tonight?"',
    "ledger",
)
"""What to type next, in the everyday starter."""


@dataclass(frozen=True, slots=True)
class Made:
    """What `one-shot init` says it made.

    Attributes:
        sandbox: `required` or `off`.
        sandbox_problem: why apps do not start on this machine, and what to do; if so.
    """

    sandbox: str
    sandbox_problem: str | None

    @classmethod
    def from_data(cls, data: dict[str, object]) -> Made:
        problem = data.get("sandbox_problem")
        return cls(str(data.get("sandbox")), str(problem) if problem is not None else None)


def confirm(call: Invocation, starter: str) -> None:
    """On a terminal, says what is about to be made and where, and asks whether to go on.

    Raises:
        KeyboardInterrupt: the owner does not want it.
    """
    if not can_ask():
        return
    notes = call.output.notes
    notes.print("This makes a profile of your own:")
    _show_places(notes, call.profile, starter)
    if answer(notes, "Make it? [Y/n] ").lower() not in {"", "y", "yes"}:
        raise KeyboardInterrupt


def make(call: Invocation, starter: str, key: str | None, given: Passphrase | None) -> None:
    """Makes the profile and makes sure that there is a model to answer with."""
    made = _make(call, starter, key, given)
    model_problem = _install_model(call)
    call.output.show(
        {
            "config": str(call.profile.config),
            "data": str(call.profile.data),
            "state": str(call.profile.state),
            "starter": starter,
            "sandbox": made.sandbox,
            "sandbox_problem": made.sandbox_problem,
            "model_problem": model_problem,
        },
        lambda console: _say_made(console, call, starter, made, model_problem),
    )


def initialise(
    call: Invocation, target: Target, options: list[str], passphrase: Passphrase | None
) -> Made:
    """Runs `one-shot init` with these options."""
    with progress_bar(call.output.notes, "making the profile") as report:
        return Made.from_data(one_shot(target, ["init", *options], passphrase, report))


def install_model(call: Invocation, target: Target) -> None:
    """Runs `one-shot model-install`, which does nothing where the model is there already.

    Raises:
        TactfulError: it could not be obtained.
    """
    with progress_bar(call.output.notes, "looking for the model") as report:
        one_shot(target, ["model-install"], None, report)


def _make(call: Invocation, starter: str, key: str | None, given: Passphrase | None) -> Made:
    target = Target(call.profile, call.folder)
    options = ["--starter", starter]
    if key == "keyring":
        return initialise(call, target, [*options, "--key", "keyring"], None)
    if key is None and given is None:
        try:
            return initialise(call, target, options, None)
        except PassphraseNeeded:
            if not can_ask():
                raise
            call.output.notes.print(
                "This machine has no keyring to keep the key in, so a passphrase will unlock your "
                "memory. Without it nobody can read it again, you included."
            )
    return initialise(call, target, [*options, "--key", "passphrase"], given or ask_for_new())


def _install_model(call: Invocation) -> str | None:
    """What went wrong, if something did: the profile is made in any case."""
    try:
        install_model(call, Target(call.profile, call.folder))
    except (ModelFailed, OperatorError) as error:
        return str(error)
    return None


def _show_places(console: Console, profile: Profile, starter: str) -> None:
    for what, where, note in (
        ("policy", profile.policy_file, f'starter "{starter}", yours to edit'),
        ("memory", profile.data, "sealed, with the ledgers beside it"),
        ("state", profile.state, "the log, tokens of apps"),
    ):
        line = Text.assemble((f"  {what:<8}", "dim"), visible(str(where)), (f"  ({note})", "dim"))
        console.print(line, soft_wrap=True)


def _say_made(
    console: Console, call: Invocation, starter: str, made: Made, model_problem: str | None
) -> None:
    console.print(Text("Your profile is made.", style="bold green"))
    _show_places(console, call.profile, starter)
    for notice in (made.sandbox_problem, model_problem):
        if notice is not None:
            console.print(Text(f"Note: {visible(notice)}", style="yellow"))
    console.print()
    show_next_steps(console, [call.command(words) for words in NEXT])


def show_next_steps(console: Console, command_lines: Sequence[str]) -> None:
    """What to type next, ready to be copied."""
    console.print(Text("What to type next:", style="bold"))
    for line in command_lines:
        console.print(Text(f"  {line}"), soft_wrap=True)
