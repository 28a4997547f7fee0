"""The operating system's keyring as a place for one key of each store.

Decides which keyrings may hold a key, and asks them. What is *not* here: what the key opens
(`keys`).

Invariants:

- a keyring that forgets, that keeps plain text, or that `keyring` itself does not recommend is
  refused, also inside a chain of keyrings;
- every error names the backend; a backend may raise anything, and its own text is not repeated.
"""

from __future__ import annotations

import hmac
import re

import keyring
from keyring.backend import KeyringBackend
from keyring.backends.chainer import ChainerBackend

from tactful.errors import KeyUnavailable
from tactful_core.sealing import Key
from tactful_core.values import Secret

SERVICE = "tactful"
"""Under which service keys are kept; the name beside it begins with the store's id."""

_KEY = re.compile(r"[0-9a-f]{64}")


def configured_backend() -> KeyringBackend:
    """The keyring that this user's system or configuration chooses.

    Raises:
        KeyUnavailable: it cannot be loaded.
    """
    try:
        return keyring.get_keyring()
    except Exception as problem:
        raise KeyUnavailable(
            f"The configured keyring could not be loaded ({type(problem).__name__}); correct "
            "PYTHON_KEYRING_BACKEND or keyringrc.cfg, or use --key passphrase."
        ) from problem


def usable_backends(current: KeyringBackend) -> list[KeyringBackend]:
    """The keyring in use, or those that it chains, as far as they may hold a key."""
    candidates = current.backends if isinstance(current, ChainerBackend) else [current]
    return [backend for backend in candidates if _keeps_secrets(backend)]


def _keeps_secrets(backend: KeyringBackend) -> bool:
    """Not in plain text, and of a priority that `keyring` recommends; null and fail have none."""
    if "plaintext" in type(backend).__name__.lower():
        return False
    try:
        return backend.priority >= 1
    except RuntimeError:
        return False


def backend_name(backend: KeyringBackend) -> str:
    """The backend as `keyring`'s own configuration names it; recorded, and in every error."""
    return f"{type(backend).__module__}.{type(backend).__qualname__}"


def entry_name(store_id: bytes, entry: bytes) -> str:
    """The name of one key of a store; a key that takes its place has a name of its own."""
    return f"{store_id.hex()} {entry.hex()}"


def put(backend: KeyringBackend, name: str, kek: Key) -> None:
    """Gives a store's key to a keyring, and looks whether it is there.

    Raises:
        KeyUnavailable: it is not.
    """
    try:
        backend.set_password(SERVICE, name, kek.reveal().hex())
    except Exception as problem:
        raise KeyUnavailable(
            f"The keyring {backend_name(backend)} did not take the key "
            f"({type(problem).__name__}); unlock it, or use --key passphrase."
        ) from problem
    kept = get(backend, name)
    if kept is None or not hmac.compare_digest(kept.reveal(), kek.reveal()):
        raise KeyUnavailable(
            f"The keyring {backend_name(backend)} did not keep the key; use --key passphrase."
        )


def get(backend: KeyringBackend, name: str) -> Key | None:
    """The key that a keyring holds under a name; `None` if it holds nothing there.

    Raises:
        KeyUnavailable: the keyring cannot be asked, or what it holds is no key.
    """
    try:
        kept = backend.get_password(SERVICE, name)
    except Exception as problem:
        raise KeyUnavailable(
            f"The keyring {backend_name(backend)} could not be asked for the key "
            f"({type(problem).__name__}); unlock it and try again."
        ) from problem
    if kept is None:
        return None
    if not _KEY.fullmatch(kept):
        raise KeyUnavailable(
            f"What the keyring {backend_name(backend)} holds for this store (service {SERVICE}, "
            f"name {name}) is not a key; restore the entry that `tactful init` made."
        )
    return Secret(bytes.fromhex(kept))


def discard(backend: KeyringBackend, name: str) -> bool:
    """Takes a key out of a keyring; whether the keyring did so."""
    try:
        backend.delete_password(SERVICE, name)
    except Exception:  # noqa: BLE001 - backends raise whatever their libraries do
        return False
    return True


def put_mark(backend: KeyringBackend, store_id: bytes, mark: str) -> bool:
    """Gives a store's high-water mark to a keyring; whether it took it."""
    try:
        backend.set_password(SERVICE, _mark_name(store_id), mark)
    except Exception:  # noqa: BLE001 - backends raise whatever their libraries do
        return False
    return True


def get_mark(backend: KeyringBackend, store_id: bytes) -> str | None:
    """What a keyring holds as a store's high-water mark; `None` where it cannot say."""
    try:
        return backend.get_password(SERVICE, _mark_name(store_id))
    except Exception:  # noqa: BLE001 - as above; the file beside it is asked as well
        return None


def discard_mark(backend: KeyringBackend, store_id: bytes) -> bool:
    """Takes a store's high-water mark out of a keyring; whether the keyring did so."""
    return discard(backend, _mark_name(store_id))


def _mark_name(store_id: bytes) -> str:
    return f"{store_id.hex()} mark"
