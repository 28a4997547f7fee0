"""An app that does not fit its hooks is refused at load, in a sentence with file and line."""

from __future__ import annotations

import asyncio
import re
import types
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fakes.no_budget import NoBudget

from tactful.agent import Agent
from tactful.hooks import HOOKS, App, AppRefusedError
from tactful.wire import Answer, Event, EventKind

SOUND = """
from tactful.hooks import hookimpl
from tactful.manifest import Manifest
from tactful.wire import EventKind

handled = []

@hookimpl
def tactful_manifest():
    return Manifest(name="probe", title="Probe", version="1", events=(EventKind.MESSAGE,))

@hookimpl
async def tactful_on_event(event, agent):
    handled.append((event, agent))
"""


def plugin(source: str) -> types.ModuleType:
    """A module as if it had been imported from `/apps/probe.py`."""
    module = types.ModuleType("probe")
    exec(compile(source, "/apps/probe.py", "exec"), vars(module))  # noqa: S102 - a text of this file
    return module


def refusal(source: str) -> str:
    with pytest.raises(AppRefusedError) as refused:
        App.checked("probe", plugin(source))
    return str(refused.value)


class SilentAsker(NoBudget):
    async def ask(
        self,
        query: str,
        *,
        slots: tuple[str, ...] | None = None,
        thread: str | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> Answer:
        raise AssertionError("nobody asks here")


async def test_sound_app_has_its_manifest_and_is_given_events() -> None:
    module = plugin(SOUND)
    app = App.checked("probe", module)
    assert (app.manifest.name, app.manifest.events) == ("probe", (EventKind.MESSAGE,))
    event = Event(kind=EventKind.MESSAGE, text="dinner?")
    async with asyncio.TaskGroup() as group:
        agent = Agent(SilentAsker(), group)
        await app.on_event(event, agent)
    assert module.handled == [(event, agent)]


async def test_hook_may_leave_parameters_out() -> None:
    module = plugin(
        SOUND.replace("(event, agent)", "(event)", 1).replace("(event, agent)", "event")
    )
    app = App.checked("probe", module)
    event = Event(kind=EventKind.MESSAGE, text="dinner?")
    async with asyncio.TaskGroup() as group:
        await app.on_event(event, Agent(SilentAsker(), group))
    assert module.handled == [event]


async def test_object_with_the_hooks_as_methods_is_an_app() -> None:
    class Methods:
        tactful_manifest = staticmethod(plugin(SOUND).tactful_manifest)
        tactful_on_event = staticmethod(plugin(SOUND).tactful_on_event)

    assert App.checked("probe", Methods()).manifest.name == "probe"


@pytest.mark.parametrize("hook", list(HOOKS))
def test_missing_hook_is_named(hook: str) -> None:
    source = SOUND.replace(f"def {hook}", "def other").replace("@hookimpl", "", 2)
    source = re.sub(r"\ndef tac|\nasync def tac", lambda m: "\n@hookimpl" + m[0], source)
    assert refusal(source) == f"The app probe has no {hook}. Define it and mark it with @hookimpl."


@pytest.mark.parametrize("mark", ["@hookimpl", ""], ids=["marked", "unmarked"])
def test_misspelt_hook_is_refused_with_file_line_and_what_was_meant(mark: str) -> None:
    source = SOUND + f"\n\n{mark}\nasync def tactful_on_evnt(event):\n    ...\n"
    said = refusal(source)
    line = source[: source.index("tactful_on_evnt")].count("\n") + (0 if mark else 1)
    assert said.startswith(f"/apps/probe.py:{line}: There is no hook tactful_on_evnt.")
    assert said.endswith("Did you mean tactful_on_event?")


def test_marked_function_that_resembles_no_hook_is_refused_with_the_list_of_hooks() -> None:
    said = refusal(SOUND + "\n@hookimpl\ndef weather():\n    ...\n")
    assert "There is no hook weather." in said
    assert all(hook in said for hook in HOOKS)


def test_imported_module_whose_name_begins_like_a_hook_is_no_hook() -> None:
    App.checked("probe", plugin(SOUND + "\nimport types as tactful_types\n"))


def test_hook_without_its_mark_is_refused() -> None:
    said = refusal(SOUND.replace("@hookimpl\nasync", "async"))
    assert "tactful_on_event is not marked with @hookimpl" in said


def test_hook_of_the_wrong_kind_is_refused() -> None:
    assert "tactful_on_event must be async def" in refusal(SOUND.replace("async def", "def"))
    said = refusal(SOUND.replace("\ndef tactful_manifest", "\nasync def tactful_manifest"))
    assert "tactful_manifest must be a plain def" in said


def test_parameter_that_the_hook_does_not_have_is_refused() -> None:
    said = refusal(SOUND.replace("(event, agent)", "(event, memory)", 1))
    assert "tactful_on_event has no parameter memory" in said
    assert "event, agent" in said


def test_manifest_of_another_app_is_refused() -> None:
    said = refusal(SOUND.replace('"probe"', '"other"'))
    assert said.startswith("/apps/probe.py:8: The manifest names the app other,")
    assert "installed as probe" in said


@pytest.mark.parametrize("returned", ["None", "{'name': 'probe'}"])
def test_manifest_that_is_none_is_refused(returned: str) -> None:
    said = refusal(re.sub(r"return Manifest\(.*\)", f"return {returned}", SOUND))
    assert "must return a tactful.manifest.Manifest" in said


def test_every_hook_says_what_it_is_for() -> None:
    assert all(hook.__doc__ for hook in HOOKS.values())


def test_every_hook_is_described_in_the_document_for_app_authors() -> None:
    document = Path(__file__).parents[2] / "docs" / "apps.md"
    text = document.read_text(encoding="utf-8")
    assert all(f"`{hook}(" in text for hook in HOOKS)
