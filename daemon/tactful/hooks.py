"""The hooks of an app, and the check that an app fits them.

Decides which functions an app may define and must define. What is *not* here: finding an app and
running it (`app_main`).

Invariants:

- a function that looks like a hook and is none is refused at load, with file and line; an app never
  loses an event to a misspelt name;
- an app's manifest names that app and no other.
"""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pluggy

from tactful.agent import Agent
from tactful.manifest import Manifest
from tactful.wire import Event

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
async def tactful_on_event(event: Event, agent: Agent) -> None:
    """Something happened that the app's manifest lists.

    The agent works until this function returns. What is raised here is written to the app's log,
    and whoever caused the event is told that the app failed.
    """


HOOKS: dict[str, Callable[..., Any]] = {
    hook.__name__: hook for hook in (tactful_manifest, tactful_on_event)
}


class AppRefusedError(Exception):
    """The app cannot be loaded as it is; the message is for its author."""


class App:
    """One loaded app whose hooks were checked; each hook is one typed method."""

    def __init__(self, plugins: pluggy.PluginManager, manifest: Manifest) -> None:
        self._plugins = plugins
        self.manifest = manifest

    @classmethod
    def checked(cls, name: str, plugin: object) -> App:
        """The app that `plugin`, a module or another object with the hooks, implements.

        Raises:
            AppRefusedError: a hook is missing, misspelt or of the wrong form, or the manifest is
                another app's.
        """
        plugins = pluggy.PluginManager(PROJECT)
        plugins.add_hookspecs(sys.modules[__name__])
        for attribute in dir(plugin):
            _check_attribute(attribute, getattr(plugin, attribute, None))
        for hook in HOOKS:
            if not hasattr(plugin, hook):
                raise AppRefusedError(
                    f"The app {name} has no {hook}. Define it and mark it with @hookimpl."
                )
        plugins.register(plugin, name)
        return cls(plugins, _checked_manifest(name, plugin, plugins.hook.tactful_manifest()))

    async def on_event(self, event: Event, agent: Agent) -> None:
        """Lets the app handle an event; raises whatever the app raises."""
        handled: Awaitable[None] = self._plugins.hook.tactful_on_event(event=event, agent=agent)
        await handled


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


def _where(value: Callable[..., Any]) -> str:
    """`file:line: ` of a function written in Python."""
    code = getattr(inspect.unwrap(value), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}: " if code is not None else ""
