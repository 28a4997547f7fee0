"""The README's commands run, its example app loads, its links lead somewhere."""

import re
import shlex
import types
from pathlib import Path

import pytest
import typer
from tests.tactful.cli.command_line import Tactful
from tests.tactful.cli.fake_tactfuld import PASSPHRASE

from tactful.cli import main
from tactful.hooks import App

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_its_commands_run(tactful: Tactful) -> None:
    lines = [
        shlex.split(line, comments=True)
        for block in blocks("sh")
        for line in block.splitlines()
        if line.startswith("tactful ")
    ]
    assert len(lines) >= 8
    for _, *arguments in lines:
        result = tactful.run(*arguments, TACTFUL_PASSPHRASE=PASSPHRASE)
        assert result.status == 0, (arguments, result)


def test_it_names_only_commands_that_exist() -> None:
    known = set(getattr(typer.main.get_command(main.app), "commands"))  # noqa: B009 - untyped
    named = set(re.findall(r"`tactful ([a-z]+)", README))
    assert named
    assert named <= known


def test_its_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", README, re.MULTILINE))
    assert {"run", "setup"} <= named <= targets


def test_its_example_app_loads() -> None:
    (source,) = blocks("python")
    module = types.ModuleType("shopping")
    exec(compile(source, "README.md", "exec"), vars(module))  # noqa: S102 - a text of this repository
    assert App.checked("shopping", module).manifest.name == "shopping"


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#]+)\)", README))))
def test_its_links_lead_somewhere(target: str) -> None:
    assert (ROOT / target).exists()
