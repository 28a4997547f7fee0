"""The questions of `tactful init`, on a terminal.

Decides what is asked, in which words, and that everything is said before anything is done. What is
*not* here: doing it (`profile_setup`), and the passphrase itself (`passphrase`).

Invariant: what an option of the command line has said already is not asked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rich.console import Console
from rich.text import Text

from tactful.cli.invocation import Invocation
from tactful.cli.process import Target, one_shot
from tactful.cli.progress import spinner
from tactful.cli.questions import choice, yes
from tactful.init_report import InitChoices, OfferedModel
from tactful.profile import Profile
from tactful.visible_text import visible

DEFAULT_STARTER = "everyday"


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the owner wants of a new profile; what is not said yet is None.

    Attributes:
        key: where the key that unlocks memory shall be.
        model: whether to make sure that there is a model to answer with.
    """

    starter: str | None = None
    key: str | None = None
    model: bool | None = None


def asked(call: Invocation, wishes: Wishes, *, has_passphrase: bool) -> Wishes:
    """The wishes after the owner was asked for those that are missing.

    Raises:
        KeyboardInterrupt: the owner does not want a profile.
        TactfulError: one is there already.
    """
    notes = call.output.notes
    with spinner(notes, "looking at this machine"):
        target = Target(call.profile, call.folder)
        data = one_shot(target, ["init-choices"], None, lambda *_: None)
    choices = InitChoices.model_validate(data)
    notes.print(
        "This makes a profile of your own: a policy that says what apps may ask, a sealed memory "
        "that is still empty, and the ledgers beside it.\n"
    )
    starter = wishes.starter or _starter(notes, choices)
    key = wishes.key or _key(notes, choices, has_passphrase=has_passphrase)
    model = _model(notes, choices.model) if wishes.model is None else wishes.model
    notes.print(Text("\nThis will be made:", style="bold"))
    show_places(notes, call.profile, starter)
    if not yes(notes, "Make it?"):
        raise KeyboardInterrupt
    return replace(wishes, starter=starter, key=key, model=model)


def show_places(console: Console, profile: Profile, starter: str) -> None:
    """Where the parts of a profile are."""
    for what, where, note in (
        ("policy", profile.policy_file, f'starter "{starter}", yours to edit'),
        ("memory", profile.data, "sealed, with the ledgers beside it"),
        ("state", profile.state, "the log, tokens of apps"),
    ):
        line = Text.assemble((f"  {what:<8}", "dim"), visible(str(where)), (f"  ({note})", "dim"))
        console.print(line, soft_wrap=True)


def _starter(notes: Console, choices: InitChoices) -> str:
    options = {each.name: each.about for each in choices.starters}
    return choice(notes, "Which policy do you want to begin with?", options)


def _key(notes: Console, choices: InitChoices, *, has_passphrase: bool) -> str:
    if has_passphrase:
        notes.print("\nThe passphrase that you gave will unlock your memory.")
        return "passphrase"
    if choices.keyring is None:
        notes.print(
            "\nThis machine has no keyring to keep the key in, so a passphrase will unlock your "
            "memory. Without it nobody can read it again, you included."
        )
        return "passphrase"
    notes.print()
    options = {
        "keyring": f"kept by {visible(choices.keyring)}, which your login unlocks",
        "passphrase": "typed at each start; without it nobody can read your memory again",
    }
    return choice(notes, "What shall unlock your memory?", options)


def _model(notes: Console, model: OfferedModel) -> bool:
    name = visible(model.name)
    if model.installed:
        notes.print(f"\nThe language model {name} is on this machine already.")
        return True
    notes.print(
        f"\nA language model on this machine writes the answers. {name} runs anywhere; it takes "
        f"{model.size / 1e6:.0f} MB to fetch ({visible(model.licence)})."
    )
    return yes(notes, "Fetch it now?")
