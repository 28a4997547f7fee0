"""Ctrl-C at every prompt and at every progress bar: status 130, one word, a terminal in order."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.tactful.cli.command_line import Tactful
from tests.tactful.cli.fake_tactfuld import PASSPHRASE, make_profile

from tactful.profile import Profile

FOREVER = 1_000_000
OPEN = {"TACTFUL_PASSPHRASE": PASSPHRASE}


@dataclass(frozen=True)
class Case:
    """A command that is interrupted when `seen` is on the screen.

    Attributes:
        typed: what is typed before, each at its prompt.
        wishes: what the stand-in daemon is told, when it starts and when a child runs.
        needs: "nothing", a profile that is "made", or a daemon that is "running" or "locked".
    """

    words: str
    seen: str
    typed: tuple[tuple[str, str], ...] = ()
    wishes: Mapping[str, object] = field(default_factory=dict)
    needs: str = "nothing"
    passphrase: bool = False

    def __str__(self) -> str:
        return f"{self.words}: {self.seen}"


NEW = "New passphrase:"
CASES = (
    # prompts; those of the wizard are in test_init_wizard
    Case("init --yes", NEW),
    Case("init --yes", "The same again:", ((NEW, "x"),)),
    Case("start", "Passphrase:", needs="made"),
    Case("start", "Passphrase:", (("Passphrase:", "wrong"),), needs="made"),
    Case("ledger restore copy.db", "Passphrase:", needs="made"),
    Case("remember --shelf food.diet", "What shall I remember?", needs="running"),
    Case("ask", "?", needs="running"),
    Case("epoch new", "Type new epoch to open it:", needs="running"),
    Case("history forget --all", "Type yes to forget:", needs="running"),
    Case("memory forget 1", "Type yes to forget:", needs="running"),
    Case("memory accept", "Type yes to take it:", needs="made"),
    Case("key change", "Passphrase:", needs="made"),
    Case("key rotate", "Passphrase:", needs="made"),
    Case("key recovery", "Passphrase:", needs="made"),
    Case("recover", "Recovery phrase:", needs="made"),
    Case("unlock", "Passphrase:", needs="locked"),
    # progress
    Case("init", "looking at this machine", wishes={"hang": "init-choices"}),
    Case("init --yes", "keys", wishes={"hang": "init"}, passphrase=True),
    Case("init --yes", "fetching the model", wishes={"hang": "model-install"}, passphrase=True),
    Case("start", "starting the daemon", wishes={"hang": "serve"}, needs="made", passphrase=True),
    Case("stop", "stopping the daemon", wishes={"stop_after": 5}, needs="running"),
    Case("status --wait", "loading toy", wishes={"loading": FOREVER}, needs="running"),
    Case("tell meals dinner?", "loading toy", wishes={"loading": FOREVER}, needs="running"),
    Case("tell meals dinner?", "meals asks", wishes={"hang_on": "tell"}, needs="running"),
    Case("ask dinner?", "loading toy", wishes={"loading": FOREVER}, needs="running"),
    Case("policy check", "reading the policy", wishes={"hang": "policy-check"}),
    Case("policy rollback", "reading the policy", wishes={"hang": "policy-versions"}),
    Case("model install", "fetching the model", wishes={"hang": "model-install"}),
    Case("model pull toy", "keys", wishes={"hang": "model-pull"}),
    Case("model use toy", "keys", wishes={"hang": "model-use"}),
    Case(
        "ledger restore copy.db", "keys", wishes={"hang": "ledger-restore"}, needs="made",
        passphrase=True,
    ),
    Case("demo", "fetching the model", wishes={"hang": "model-install"}),
    Case("demo", "starting the daemon", wishes={"hang": "serve"}),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_ctrl_c_is_130_and_says_so_in_a_word(tactful: Tactful, case: Case) -> None:
    surroundings = {"FAKE_TACTFULD": json.dumps(case.wishes)}
    if case.needs != "nothing":
        folder = Path(tactful.environment["TACTFUL_PROFILE"])
        make_profile(Profile.at(folder), "demo", PASSPHRASE)
    if case.needs in {"running", "locked"}:
        tactful.json("start", **OPEN, **surroundings)
    if case.needs == "locked":
        tactful.json("lock")
    if case.passphrase:
        surroundings |= OPEN
    if case.words == "demo":
        tactful.environment.pop("TACTFUL_PROFILE")
    with tactful.terminal(*case.words.split(), **surroundings) as terminal:
        for prompt, line in case.typed:
            terminal.expect(prompt)
            terminal.type(line)
        terminal.expect(case.seen)
        terminal.press("C")
        assert terminal.end() == 130, terminal.text
        assert terminal.text.rstrip().endswith("Interrupted."), terminal.text
        assert "Traceback" not in terminal.text
        assert terminal.seen.count("\x1b[?25l") <= terminal.seen.count("\x1b[?25h"), "no cursor"
