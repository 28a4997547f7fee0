"""What an app keeps for itself from one event to the next: a few small values, by name.

Decides how much an app may keep and how it is written. What is *not* here: anything of the daemon;
the file is in the app's own folder, and only the app reads it.

It is not sealed. All that an app holds was released to it, or is its own; sealing what it could as
well write beside this file would protect nothing.

Invariants:

- a value is kept whole or not at all, whenever the process is killed;
- at most `MOST_VALUES` values, of at most `MOST_BYTES` bytes together, as JSON;
- a file that is damaged counts as empty, and is put aside under another name.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

from pydantic import JsonValue

from tactful.errors import DoesNotFit, InvalidParams

STATE_FILE = "state.json"
MOST_VALUES = 1000
MOST_BYTES = 1024 * 1024
MOST_KEY = 200


class AppState:
    """The values that an app keeps; they outlive its process and the daemon's."""

    def __init__(self, folder: Path) -> None:
        """Nothing is read yet.

        Args:
            folder: the app's own.
        """
        self._file = folder / STATE_FILE
        self._values: dict[str, JsonValue] | None = None
        self._changing = asyncio.Lock()

    async def get(self, key: str, default: JsonValue = None) -> JsonValue:
        """What is kept under a name; a copy."""
        async with self._changing:
            values = await self._read()
            return _copied(values[key]) if key in values else default

    async def keys(self) -> tuple[str, ...]:
        """The names under which something is kept."""
        async with self._changing:
            return tuple(await self._read())

    async def set(self, key: str, value: JsonValue) -> None:
        """Keeps a value, in place of what was kept under the name.

        Args:
            key: 1 to 200 characters.
            value: what JSON can say.

        Raises:
            InvalidParams: the name or the value is not of these kinds.
            DoesNotFit: there would be too many values, or they would be too long together.
        """
        if not 1 <= len(key) <= MOST_KEY:
            raise InvalidParams(f"The name of a value has 1 to {MOST_KEY} characters.")
        async with self._changing:
            values = await self._read()
            await self._write({**values, key: _copied(value)})

    async def delete(self, key: str) -> None:
        """Keeps nothing under the name any more; does nothing where nothing was."""
        async with self._changing:
            values = await self._read()
            if key in values:
                await self._write({name: kept for name, kept in values.items() if name != key})

    async def _read(self) -> dict[str, JsonValue]:
        if self._values is None:
            self._values = await asyncio.to_thread(_read, self._file)
        return self._values

    async def _write(self, values: dict[str, JsonValue]) -> None:
        text = json.dumps(values)
        if len(values) > MOST_VALUES or len(text) > MOST_BYTES:
            raise DoesNotFit(
                f"An app keeps at most {MOST_VALUES} values, of {MOST_BYTES} bytes together. "
                "Delete some, or write a file of your own."
            )
        await asyncio.to_thread(_write, self._file, text)
        self._values = values


def _copied(value: JsonValue) -> JsonValue:
    """Another value that is equal, which whoever holds the first one cannot change."""
    try:
        copy: JsonValue = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidParams(
            "A value must be what JSON can say: text, numbers, true, false, null, lists, and "
            "mappings of texts to these."
        ) from error
    return copy


def _read(file: Path) -> dict[str, JsonValue]:
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        values = None
    if not isinstance(values, dict):
        file.replace(file.with_suffix(".damaged"))
        return {}
    return values


def _write(file: Path, text: str) -> None:
    beside = file.with_suffix(".new")
    with beside.open("w", encoding="utf-8") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    beside.replace(file)
