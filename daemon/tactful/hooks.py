"""The hooks of an app, and the check that an app fits them.

Decides which functions an app may define and must define. What is *not* here: finding an app and
running it (`app_main`).

Invariants:

- a function that looks like a hook and is none is refused at load, with file and line; an app never
  loses an event to a misspelt name;
- an app's manifest names that app and no other, and lists events exactly if there is a hook that
  takes them.
"""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pluggy

from tactful.agent import Agent
from tactful.manifest import Manifest, Setting, SettingValue, repeated
from tactful.wire import Begin, Event, FolderGiven

PROJECT = "tactful"
ENTRY_POINTS = "tactful.apps"
"""The entry-point group in which an installed package names its app."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a function of an app as the hook of its name."""


@hookspec(firstresult=True)
def tactful_manifest() -> Manifest:  # type: ignore[empty-body]
    """What the app is called and what it asks for; called once, when the app is loaded."""


@hookspec(firstresult=True)
def tactful_settings() -> Sequence[Setting]:  # type: ignore[empty-body]
    """The switches that the owner can set; called once, when the app is loaded. Optional."""


@hookspec(firstresult=True)
async def tactful_start(
    agent: Agent, settings: Mapping[str, SettingValue], folders: Sequence[FolderGiven]
) -> None:
    """The app's process begins; no event comes before this returns. Optional.

    What is raised here ends the process; it is started again later, a few times.

    Args:
        agent: works until this function returns.
        settings: each of the app's settings by its key, as the owner set it or by default.
        folders: the folders that the owner granted, in no order.
    """


@hookspec(firstresult=True)
async def tactful_on_event(
    event: Event,
    agent: Agent,
    settings: Mapping[str, SettingValue],
    folders: Sequence[FolderGiven],
) -> None:
    """Something happened that the app's manifest lists. Required if it lists anything.

    The agent works until this function returns. What is raised here is written to the app's log,
    and whoever caused the event is told that the app failed. The other arguments are as for
    `tactful_start`.
    """


@hookspec(firstresult=True)
async def tactful_stop() -> None:
    """The app's process ends in order; there is about a second for it. Optional.

    A process that has to be ended by force is not asked.
    """


HOOKS: dict[str, Callable[..., Any]] = {
    hook.__name__: hook
    for hook in (tactful_manifest, tactful_settings, tactful_start, tactful_on_event, tactful_stop)
}


class AppRefusedError(Exception):
    """The app cannot be loaded as it is; the message is for its author."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What the owner decided for the app, as its hooks are told.

    Attributes:
        settings: every setting of the app by its key.
        folders: the folders that it was granted.
    """

    settings: Mapping[str, SettingValue]
    folders: tuple[FolderGiven, ...] = ()


class App:
    """One loaded app whose hooks were checked; each hook is one typed method."""

    def __init__(
        self, plugins: pluggy.PluginManager, manifest: Manifest, settings: tuple[Setting, ...]
    ) -> None:
        self._plugins = plugins
        self.manifest = manifest
        self.settings = settings

    @classmethod
    def checked(cls, name: str, plugin: object) -> App:
        """The app that `plugin`, a module or another object with the hooks, implements.

        Raises:
            AppRefusedError: a hook is missing, misspelt or of the wrong form, the manifest is
                another app's, or does not agree with the hooks.
        """
        plugins = pluggy.PluginManager(PROJECT)
        plugins.add_hookspecs(sys.modules[__name__])
        for attribute in dir(plugin):
            _check_attribute(attribute, getattr(plugin, attribute, None))
        if not hasattr(plugin, tactful_manifest.__name__):
            raise AppRefusedError(
                f"{_file(plugin)}The app {name} has no tactful_manifest. Define it and mark it "
                "with @hookimpl."
            )
        plugins.register(plugin, name)
        manifest = _checked_manifest(name, plugin, plugins.hook.tactful_manifest())
        _check_events(plugin, manifest)
        return cls(plugins, manifest, _checked_settings(plugin, plugins.hook.tactful_settings()))

    def circumstances(self, begin: Begin) -> Circumstances:
        """What the daemon says that the owner decided, with defaults for what was not set.

        Raises:
            AppRefusedError: a value is of no setting, or the setting cannot have it.
        """
        values: dict[str, SettingValue] = {each.key: each.default for each in self.settings}
        known = {each.key: each for each in self.settings}
        for given in begin.settings:
            setting = known.get(given.key)
            refusal = "is not one of its settings" if setting is None else None
            if setting is not None:
                refusal = setting.refusal(given.value)
            if refusal is not None:
                raise AppRefusedError(
                    f"The setting {given.key} of the app {self.manifest.name} {refusal}. Set it "
                    f"anew with `tactful apps set`; `tactful apps show {self.manifest.name}` has "
                    "the list."
                )
            values[given.key] = given.value
        return Circumstances(values, begin.folders)

    async def start(self, agent: Agent, given: Circumstances) -> None:
        """Lets the app begin; raises whatever the app raises."""
        await _done(
            self._plugins.hook.tactful_start(
                agent=agent, settings=given.settings, folders=given.folders
            )
        )

    async def on_event(self, event: Event, agent: Agent, given: Circumstances) -> None:
        """Lets the app handle an event; raises whatever the app raises."""
        await _done(
            self._plugins.hook.tactful_on_event(
                event=event, agent=agent, settings=given.settings, folders=given.folders
            )
        )

    async def stop(self) -> None:
        """Lets the app end; raises whatever the app raises."""
        await _done(self._plugins.hook.tactful_stop())


async def _done(hook: Awaitable[None] | None) -> None:
    """Waits for a hook, if the app has it."""
    if hook is not None:
        await hook


def _check_attribute(attribute: str, value: object) -> None:
    """Refuses what looks like a hook and is none, and a hook of the wrong form."""
    if not inspect.isroutine(value):
        return
    marked: object = getattr(value, f"{PROJECT}_impl", None)
    if marked is None and not attribute.startswith(f"{PROJECT}_"):
        return
    if attribute not in HOOKS:
        raise AppRefusedError(f"{_where(value)}There is no hook {attribute}.{_meant(attribute)}")
    if marked is None:
        raise AppRefusedError(f"{_where(value)}The hook {attribute} is not marked with @hookimpl.")
    if inspect.iscoroutinefunction(HOOKS[attribute]) != inspect.iscoroutinefunction(value):
        form = "async def" if inspect.iscoroutinefunction(HOOKS[attribute]) else "a plain def"
        raise AppRefusedError(f"{_where(value)}The hook {attribute} must be {form}.")
    known = inspect.signature(HOOKS[attribute]).parameters
    for parameter in inspect.signature(value).parameters:
        if parameter not in known:
            raise AppRefusedError(
                f"{_where(value)}The hook {attribute} has no parameter {parameter}; "
                f"it may take: {', '.join(known) or 'none'}."
            )


def _meant(attribute: str) -> str:
    close = difflib.get_close_matches(attribute, HOOKS, n=1)
    return f" Did you mean {close[0]}?" if close else f" The hooks are {' and '.join(HOOKS)}."


def _checked_manifest(name: str, plugin: object, manifest: object) -> Manifest:
    where = _where(getattr(plugin, tactful_manifest.__name__))
    if not isinstance(manifest, Manifest):
        raise AppRefusedError(
            f"{where}The hook tactful_manifest must return a tactful.manifest.Manifest; "
            f"it returned {type(manifest).__name__}."
        )
    if manifest.name != name:
        raise AppRefusedError(
            f"{where}The manifest names the app {manifest.name}, but it is installed as {name}. "
            f"Make the manifest and the entry point in the group {ENTRY_POINTS} agree."
        )
    return manifest


def _check_events(plugin: object, manifest: Manifest) -> None:
    """Refuses a manifest that lists events which nothing handles, and a hook that gets none."""
    hook = getattr(plugin, tactful_on_event.__name__, None)
    if manifest.events and hook is None:
        raise AppRefusedError(
            f"{_where(getattr(plugin, tactful_manifest.__name__))}The manifest of the app "
            f"{manifest.name} lists events, but the app has no tactful_on_event. Define it and "
            "mark it with @hookimpl, or list no events."
        )
    if hook is not None and not manifest.events:
        raise AppRefusedError(
            f"{_where(hook)}The app {manifest.name} has the hook tactful_on_event, but its "
            "manifest lists no events, so it would never be called. List them in `events`."
        )


def _checked_settings(plugin: object, settings: object) -> tuple[Setting, ...]:
    if settings is None:
        return ()
    where = _where(getattr(plugin, tactful_settings.__name__))
    listed = tuple(settings) if isinstance(settings, Sequence) else (settings,)
    for setting in listed:
        if not isinstance(setting, Setting):
            raise AppRefusedError(
                f"{where}The hook tactful_settings must return a list of tactful.manifest.Setting; "
                f"there is {type(setting).__name__} in it."
            )
    for key in repeated(setting.key for setting in listed if isinstance(setting, Setting)):
        raise AppRefusedError(f"{where}The setting {key} is there twice. Rename one of them.")
    return tuple(setting for setting in listed if isinstance(setting, Setting))


def _file(plugin: object) -> str:
    """`file:1: ` of a module that has no function to point at."""
    file = getattr(plugin, "__file__", None)
    return f"{file}:1: " if isinstance(file, str) else ""


def _where(value: Callable[..., Any]) -> str:
    """`file:line: ` of a function written in Python."""
    code = getattr(inspect.unwrap(value), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}: " if code is not None else ""
