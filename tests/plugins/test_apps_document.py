"""`docs/apps.md` is true: its example is installed and run, and its lists are complete."""

from __future__ import annotations

import asyncio
import re
import tomllib
from inspect import signature
from pathlib import Path

import pytest
from tests.fakes.app_hosting import ScriptedDaemon, hosting, usable_sandbox
from tests.fakes.app_site import install_entry_point

import tactful.errors
from tactful.agent import Agent
from tactful.manifest import Manifest
from tactful.profile import Profile
from tactful.wire import Event, EventKind
from tactful_core.values import AppId
from tactful_policies import starter_text
from tactfuld.apps.host import HostRules
from tactfuld.apps.limits import UNCONFINED_PROCESSES, Limits
from tactfuld.policy.loading import parse_policy

TEXT = (Path(__file__).parents[2] / "docs" / "apps.md").read_text(encoding="utf-8")
SHOPPING = AppId("shopping")


def block(language: str) -> str:
    """The one block of the document in this language."""
    [found] = re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
    assert isinstance(found, str)
    return found


async def test_example_runs_in_the_sandbox_as_the_document_says(
    tmp_path: Path, profile_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tomllib.loads(block("toml"))
    [(name, target)] = project["project"]["entry-points"]["tactful.apps"].items()
    [module] = project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    assert f"`{module}`:" in TEXT
    (tmp_path / module).write_text(block("python"), encoding="utf-8")
    install_entry_point(tmp_path, name, target, distribution=project["project"]["name"])
    monkeypatch.syspath_prepend(str(tmp_path))

    daemon = ScriptedDaemon(answer="lentils and onions\n")
    sandbox = await asyncio.to_thread(usable_sandbox)
    async with hosting(profile_dir, sandbox, daemon=daemon) as host:
        await host.start(SHOPPING)
        event = Event(kind=EventKind.MESSAGE, text="for a quick dinner")
        await host.deliver(SHOPPING, event)
        await host.deliver(SHOPPING, event)
    written = Profile.at(profile_dir).state / "apps" / "shopping" / "list.txt"
    assert written.read_text(encoding="utf-8") == "- lentils and onions\n" * 2
    assert [ask.slots for _, ask in daemon.asked] == [("food",), ("food",)]
    assert "for a quick dinner" in daemon.asked[0][1].query


def test_line_for_the_policy_is_accepted_in_a_starter() -> None:
    heading, line = block("yaml").splitlines()
    policy = starter_text("everyday").replace(f"\n{heading}\n", f"\n{heading}\n{line}\n")
    grant = parse_policy(policy, source="everyday.yaml").grant(SHOPPING)
    assert grant is not None
    assert set(grant.slots) == {"food", "finance"}


def test_every_field_of_a_manifest_is_described() -> None:
    assert all(f"| `{field}` |" in TEXT for field in Manifest.model_fields)


def test_every_kind_of_event_is_described() -> None:
    assert all(f"`EventKind.{kind.name}` (`{kind}`)" in TEXT for kind in EventKind)


def shown(default: object) -> str:
    return f'"{default}"' if isinstance(default, str) else str(default)


def test_every_call_of_the_agent_is_described() -> None:
    calls = {name for name in vars(Agent) if not name.startswith("_")} - {"close"}
    asking = {"ask", "stream", "budget", "quote", "vocabulary"}
    assert calls == asking | {"notify", "propose", "send", "log"}
    assert "`agent.state`" in TEXT
    for call in calls:
        parameters = ", ".join(
            name if parameter.default is parameter.empty else f"{name}={shown(parameter.default)}"
            for name, parameter in signature(getattr(Agent, call)).parameters.items()
            if name != "self"
        )
        assert f"agent.{call}({parameters})" in TEXT


def test_every_error_that_asking_may_raise_is_described_and_exists() -> None:
    raised = set(re.findall(r"tactful\.errors\.(\w+)", Agent.ask.__doc__ or ""))
    table = TEXT[TEXT.index("## Errors") : TEXT.index("## When an app")]
    described = set(re.findall(r"`([A-Z]\w+)`", table))
    assert raised <= described
    assert all(hasattr(tactful.errors, name) for name in described)


def test_numbers_are_those_of_the_code() -> None:
    limits, rules = Limits(), HostRules()
    assert f"{limits.memory_bytes // 1024**3} GiB of address space" in TEXT
    assert f"{limits.file_bytes // 1024**2} MiB for each file" in TEXT
    assert f"{limits.processes} processes and threads" in TEXT
    assert f"the limit is {UNCONFINED_PROCESSES:,}" in TEXT
    pauses = [f"{pause:g}" for pause in rules.pauses]
    assert f"after {', '.join(pauses[:-1])} and {pauses[-1]} seconds" in TEXT
    assert rules.event_seconds == 600
    assert "An event may take ten minutes" in TEXT
    assert rules.stable_seconds == 60
    assert "four times in a row without having run for a minute" in TEXT
