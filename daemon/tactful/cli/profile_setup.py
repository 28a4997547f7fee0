"""Making a profile: what `tactful init` does and says.

Decides the order of things. What is *not* here: the questions before (`init_wizard`), which files a
profile has and what is in them (`tactfuld one-shot init`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.text import Text

from tactful.cli.init_wizard import DEFAULT_STARTER, Wishes, show_places
from tactful.cli.invocation import Invocation
from tactful.cli.passphrase import Passphrase, ask_for_new, can_ask
from tactful.cli.process import Target, one_shot
from tactful.cli.progress import progress_bar
from tactful.cli.recovery_phrase import hand_over
from tactful.errors import ModelFailed, OperatorError, PassphraseNeeded
from tactful.visible_text import visible

NEXT = (
    "start",
    'remember "I avoid sugary food." --shelf food.diet',
    'ask "What should I avoid?"',
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
        recovery_phrase: told this once.
    """

    sandbox: str
    sandbox_problem: str | None
    recovery_phrase: str | None = field(default=None, repr=False)

    @classmethod
    def from_data(cls, data: dict[str, object]) -> Made:
        problem, phrase = data.get("sandbox_problem"), data.get("recovery_phrase")
        return cls(
            str(data.get("sandbox")),
            str(problem) if problem is not None else None,
            str(phrase) if phrase is not None else None,
        )


def make(
    call: Invocation, wishes: Wishes, given: Passphrase | None, *, recovery: bool, asks: bool
) -> None:
    """Makes the profile and, unless it is not wanted, makes sure that there is a model.

    Args:
        recovery: whether to make a recovery phrase; it is handed over at once.
        asks: whether words of it are asked for.
    """
    starter = wishes.starter or DEFAULT_STARTER
    made = _make(call, starter, wishes.key, given, recovery=recovery)
    if made.recovery_phrase is not None and not call.output.as_json:
        verify, again = can_ask() and asks, call.command("key recovery")
        hand_over(call.output.notes, made.recovery_phrase, verify=verify, again=again)
    wanted = wishes.model is not False
    model_problem = _install_model(call) if wanted else None
    call.output.show(
        {
            "config": str(call.profile.config),
            "data": str(call.profile.data),
            "state": str(call.profile.state),
            "starter": starter,
            "sandbox": made.sandbox,
            "sandbox_problem": made.sandbox_problem,
            "recovery_phrase": made.recovery_phrase,
            "model_problem": model_problem,
        },
        lambda console: _say_made(console, call, starter, made, model_problem, wanted=wanted),
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


def _make(
    call: Invocation, starter: str, key: str | None, given: Passphrase | None, *, recovery: bool
) -> Made:
    target = Target(call.profile, call.folder)
    options = ["--starter", starter, *([] if recovery else ["--no-recovery"])]
    if key in {"keyring", "credential"}:
        return initialise(call, target, [*options, "--key", key], None)
    if key is None and given is None:
        try:
            return initialise(call, target, options, None)
        except PassphraseNeeded:
            if not can_ask():
                raise
            call.output.notes.print(
                "This machine has no keyring to keep the key in, so a passphrase will unlock your "
                "memory. Without it, or the recovery phrase, nobody can read it again."
            )
    return initialise(call, target, [*options, "--key", "passphrase"], given or ask_for_new())


def _install_model(call: Invocation) -> str | None:
    """What went wrong, if something did: the profile is made in any case."""
    try:
        install_model(call, Target(call.profile, call.folder))
    except (ModelFailed, OperatorError) as error:
        return str(error)
    return None


def _say_made(
    console: Console,
    call: Invocation,
    starter: str,
    made: Made,
    model_problem: str | None,
    *,
    wanted: bool,
) -> None:
    console.print(Text("Your profile is made.", style="bold green"))
    show_places(console, call.profile, starter)
    for notice in (made.sandbox_problem, model_problem):
        if notice is not None:
            console.print(Text(f"Note: {visible(notice)}", style="yellow"))
    console.print()
    steps = NEXT if wanted and model_problem is None else ("model install", *NEXT)
    show_next_steps(console, [call.command(words) for words in steps])


def show_next_steps(console: Console, command_lines: Sequence[str]) -> None:
    """What to type next, ready to be copied."""
    console.print(Text("What to type next:", style="bold"))
    for line in command_lines:
        console.print(Text(f"  {line}"), soft_wrap=True)
