"""A command line that was not understood: what the owner is told, with a suggestion.

Decides the sentence for every mistake that typer finds: unknown commands, options, values and
arguments, and missing ones. What is *not* here: mistakes that a command finds itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol, cast

import typer

from tactful.errors import UsageError

_CHOICES = re.compile(r"(?:Value error, )?'(?P<given>[^']*)' is not one of (?P<known>'.*')\.?$")
_SURPLUS = re.compile(r"Got unexpected extra argument\(s\) \((?P<given>.*)\)$")
_UNKNOWN_OPTION = re.compile(r"No such option: (?P<given>\S+)")
_NUMBER = re.compile(r"Input should be a valid integer, .*$")


class _Described(Protocol):
    def format_message(self) -> str: ...


def command_line_error() -> type[Exception]:
    """What typer raises for a command line it does not understand; it has no public name."""
    return typer.BadParameter.__bases__[0]


def usage_error(error: Exception) -> UsageError:
    """The error that the owner is told, for one of typer's."""
    told = " ".join(cast("_Described", error).format_message().split())
    context = cast("typer.Context | None", getattr(error, "ctx", None))
    sentence = _sentence(told, context)
    end = "" if sentence.endswith((".", "?", "!")) else "."
    path = context.command_path if context is not None else "tactful"
    return UsageError(f"{sentence}{end} See: {path} --help")


def _sentence(told: str, context: typer.Context | None) -> str:
    options, commands = _options(context), _commands(context)
    if found := _UNKNOWN_OPTION.match(told):
        given = found["given"]
        return f"There is no option {given} here{_suggestion(given, options)}"
    if found := _SURPLUS.match(told):
        given = found["given"]
        near = _suggestion(f"--{given}", options)
        return f"There is one argument too many here, {given}{near}"
    if found := _CHOICES.search(told):
        known = re.findall(r"'([^']*)'", found["known"])
        near = _suggestion(found["given"], known)
        listed = ", ".join(known)
        return f"{told[: found.start()]}{found['given']} is not one of {listed}{near}"
    if told == "Missing command." and commands:
        return f"Name what to do: {', '.join(commands)}."
    return _NUMBER.sub("a whole number is expected.", told)


def _options(context: typer.Context | None) -> list[str]:
    if context is None:
        return []
    parameters = context.command.get_params(context)
    return [name for each in parameters if each.param_type_name == "option" for name in each.opts]


def _commands(context: typer.Context | None) -> list[str]:
    return list(getattr(context.command, "commands", {})) if context is not None else []


def _suggestion(given: str, known: Iterable[str]) -> str:
    """`; did you mean --wait?` where something that is known is close, else a full stop."""
    from difflib import get_close_matches

    near = get_close_matches(given, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else "."
