"""The key for a remote endpoint, from where its owner keeps it.

Decides where a key may be: the keyring, a credential of systemd's, a variable of the environment.
What is *not* here: what it is used for (`inference.endpoint`). It is never in the settings, which
only say where it is, and is read anew for each request.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import keyring

from tactful_core.values import Secret
from tactfuld.inference.errors import RemoteFailed
from tactfuld.keyrings import SERVICE
from tactfuld.keys.sources import CREDENTIALS_VARIABLE

MOST_CHARACTERS = 4096


def remote_key(
    place: str | None, host: str, environ: Mapping[str, str] = os.environ
) -> Secret[str] | None:
    """The key, or `None` if the settings name no place for one (`settings.KEY_PLACE`); blocks.

    Raises:
        RemoteFailed: there is none where the settings say, or it cannot be sent in a header.
    """
    if place is None:
        return None
    key = (_found(place, host, environ) or "").strip()
    if not key or len(key) > MOST_CHARACTERS or not key.isascii() or not key.isprintable():
        raise RemoteFailed(host, f"there is no key in {_named(place, host)}")
    return Secret(key)


def keyring_name(host: str) -> str:
    """Under which name the keyring has it, in the service `tactful`."""
    return f"remote {host}"


def store_command(host: str) -> str:
    """What the owner types to put a key into the keyring."""
    return f"python -m keyring set {SERVICE} '{keyring_name(host)}'"


def _found(place: str, host: str, environ: Mapping[str, str]) -> str | None:
    kind, _, name = place.partition(":")
    if kind == "keyring":
        return _of_keyring(host)
    if kind == "env":
        return environ.get(name)
    folder = environ.get(CREDENTIALS_VARIABLE)
    if folder is None:
        return None
    try:
        return (Path(folder) / name).read_text("ascii")
    except (OSError, ValueError):
        return None


def _of_keyring(host: str) -> str | None:
    try:
        return keyring.get_password(SERVICE, keyring_name(host))
    except Exception:  # noqa: BLE001 - backends raise whatever their libraries do
        return None


def _named(place: str, host: str) -> str:
    kind, _, name = place.partition(":")
    if kind == "keyring":
        return f"the keyring (service {SERVICE}, name {keyring_name(host)})"
    if kind == "env":
        return f"the variable {name} of the daemon's environment"
    return f"the systemd credential {name}"
