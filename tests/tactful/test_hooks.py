"""An app that does not fit its hooks is refused at load, in a sentence with file and line."""

from __future__ import annotations

import asyncio
import re
import types
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fakes.no_budget import NoBudget

import tactful
from tactful.agent import Agent
from tactful.hooks import HOOKS, App, AppRefusedError, Circumstances
from tactful.manifest import Setting
from tactful.wire import Answer, Begin, Detail, Event, EventKind, FolderGiven, SettingGiven

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


NOTHING = Circumstances({})


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
        detail: Detail = "views",
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
        await app.on_event(event, agent, NOTHING)
    assert module.handled == [(event, agent)]


async def test_hook_may_leave_parameters_out() -> None:
    module = plugin(
        SOUND.replace("(event, agent)", "(event)", 1).replace("(event, agent)", "event")
    )
    app = App.checked("probe", module)
    event = Event(kind=EventKind.MESSAGE, text="dinner?")
    async with asyncio.TaskGroup() as group:
        await app.on_event(event, Agent(SilentAsker(), group), NOTHING)
    assert module.handled == [event]


async def test_object_with_the_hooks_as_methods_is_an_app() -> None:
    class Methods:
        tactful_manifest = staticmethod(plugin(SOUND).tactful_manifest)
        tactful_on_event = staticmethod(plugin(SOUND).tactful_on_event)

    assert App.checked("probe", Methods()).manifest.name == "probe"


def test_missing_manifest_is_refused_in_its_file() -> None:
    module = plugin(SOUND.replace("@hookimpl\ndef tactful_manifest", "def other"))
    module.__file__ = "/apps/probe.py"
    with pytest.raises(AppRefusedError) as refused:
        App.checked("probe", module)
    assert str(refused.value).startswith("/apps/probe.py:1: The app probe has no tactful_manifest.")


def test_events_that_nothing_handles_are_refused_with_the_place_of_the_manifest() -> None:
    said = refusal(SOUND.replace("@hookimpl\nasync def tactful_on_event", "async def other"))
    assert said.startswith("/apps/probe.py:8: The manifest of the app probe lists events, but")
    assert "tactful_on_event" in said


def test_hook_that_no_event_would_reach_is_refused_with_its_place() -> None:
    said = refusal(SOUND.replace(", events=(EventKind.MESSAGE,)", ""))
    assert said.startswith("/apps/probe.py:12: The app probe has the hook tactful_on_event, but")


def test_app_that_takes_no_events_needs_no_hook_for_them() -> None:
    source = SOUND[: SOUND.index("@hookimpl\nasync")].replace(", events=(EventKind.MESSAGE,)", "")
    assert App.checked("probe", plugin(source)).manifest.events == ()


SETTINGS = """
from tactful.manifest import Setting

@hookimpl
def tactful_settings():
    return [
        Setting(key="people", title="How many eat", default=2),
        Setting(key="style", title="Kitchen", default="any", choices=("any", "simple")),
    ]

@hookimpl
async def tactful_start(settings, folders, agent):
    handled.append(("start", dict(settings), [folder.path for folder in folders]))

@hookimpl
async def tactful_stop():
    handled.append("stop")
"""


async def test_start_and_stop_are_told_what_the_owner_decided() -> None:
    module = plugin(SOUND + SETTINGS)
    app = App.checked("probe", module)
    given = app.circumstances(
        Begin(
            settings=(SettingGiven(key="people", value=5),),
            folders=(FolderGiven(path="/r", writable=False),),
        )
    )
    async with asyncio.TaskGroup() as group:
        await app.start(Agent(SilentAsker(), group), given)
    await app.stop()
    assert module.handled == [("start", {"people": 5, "style": "any"}, ["/r"]), "stop"]


async def test_optional_hooks_may_be_missing() -> None:
    app = App.checked("probe", plugin(SOUND))
    assert app.settings == ()
    async with asyncio.TaskGroup() as group:
        await app.start(Agent(SilentAsker(), group), app.circumstances(Begin()))
    await app.stop()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            SettingGiven(key="people", value="five"),
            "people of the app probe must be a whole number",
        ),
        (SettingGiven(key="people", value=True), "must be a whole number"),
        (SettingGiven(key="style", value="grand"), "must be one of any, simple"),
        (SettingGiven(key="power", value=1), "power of the app probe is not one of its settings"),
    ],
)
def test_value_that_a_setting_cannot_have_is_refused_by_name(
    given: SettingGiven, said: str
) -> None:
    app = App.checked("probe", plugin(SOUND + SETTINGS))
    with pytest.raises(AppRefusedError, match=said):
        app.circumstances(Begin(settings=(given,)))


@pytest.mark.parametrize(
    ("replaced", "by", "said"),
    [
        ('key="style"', 'key="people"', "The setting people is there twice"),
        ("    return [", "    return [1,", "there is int in it"),
    ],
)
def test_unsound_settings_are_refused_with_file_and_line(replaced: str, by: str, said: str) -> None:
    text = refusal(SOUND + SETTINGS.replace(replaced, by))
    assert re.match(r"/apps/probe\.py:\d+: ", text)
    assert said in text


def test_names_for_apps_can_be_imported_from_the_package_itself() -> None:
    assert tactful.hookimpl is not None
    assert tactful.Agent is Agent
    assert tactful.Setting is Setting
    assert set(tactful.__all__) <= set(dir(tactful))
    with pytest.raises(AttributeError, match="no attribute 'Memory'"):
        _ = tactful.Memory


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
