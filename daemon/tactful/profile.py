"""Where a profile keeps its folders and sockets.

Decides paths, and nothing about what is in them. `--profile DIR` or `TACTFUL_PROFILE` puts
everything under one folder; otherwise the operating system's folders are used (platformdirs).

Invariants:

- configuration, data, state and runtime are four folders; sockets live in the runtime folder;
- the model cache is shared by all profiles of a user: it holds nothing personal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

ENVIRONMENT = "TACTFUL_PROFILE"


@dataclass(frozen=True, slots=True)
class Profile:
    """The folders of one profile.

    Attributes:
        config: `policy.yaml` and `settings.yaml`, written by the owner.
        data: `memory.db`, `ledger.db`, `history.db`, `keys.json`; held by one daemon at a time.
        state: logs, the owner's secret, token hashes, and the apps' own folders.
        runtime: the two sockets; mode 0700.
        cache: model files, shared between profiles.
    """

    config: Path
    data: Path
    state: Path
    runtime: Path
    cache: Path

    @classmethod
    def at(cls, folder: Path) -> Profile:
        """A profile that lives under one folder."""
        root = folder.expanduser().absolute()
        return cls(
            config=root / "config",
            data=root / "data",
            state=root / "state",
            runtime=root / "run",
            cache=_cache(),
        )

    @classmethod
    def default(cls) -> Profile:
        """The user's profile in the operating system's folders."""
        folders = platformdirs.PlatformDirs("tactful", appauthor=False)
        return cls(
            config=folders.user_config_path,
            data=folders.user_data_path,
            state=folders.user_state_path,
            runtime=_runtime(folders),
            cache=_cache(),
        )

    @classmethod
    def chosen(cls, option: Path | None, environ: Mapping[str, str] = os.environ) -> Profile:
        """By `--profile`, else `TACTFUL_PROFILE`, else the default."""
        if option is not None:
            return cls.at(option)
        named = environ.get(ENVIRONMENT)
        return cls.at(Path(named)) if named else cls.default()

    @property
    def policy_file(self) -> Path:
        return self.config / "policy.yaml"

    @property
    def settings_file(self) -> Path:
        return self.config / "settings.yaml"

    @property
    def owner_socket(self) -> Path:
        return self.runtime / "owner.sock"

    @property
    def app_socket(self) -> Path:
        return self.runtime / "app.sock"

    @property
    def owner_secret_file(self) -> Path:
        return self.state / "owner.secret"

    @property
    def log_file(self) -> Path:
        return self.state / "tactfuld.log"

    @property
    def models(self) -> Path:
        return self.cache / "models"

    @property
    def first_loads(self) -> Path:
        """Which model files were loaded here once."""
        return self.cache / "first-loads.json"


def _runtime(folders: platformdirs.PlatformDirs) -> Path:
    """The session's runtime folder; where there is no session, one that only the user can reach."""
    if sys.platform == "linux" and not os.environ.get("XDG_RUNTIME_DIR"):
        return folders.user_state_path / "run"
    return folders.user_runtime_path


def _cache() -> Path:
    return platformdirs.PlatformDirs("tactful", appauthor=False).user_cache_path
