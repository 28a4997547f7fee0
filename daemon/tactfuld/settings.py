"""Operational switches: which model, how much work, where logs begin.

Decides what the owner may set without touching a promise. What is *not* here: anything that the
guarantee depends on, which is policy (`tactfuld.policy`).

Invariants:

- every setting has a default, and a missing or empty file means all defaults;
- the sandbox is on unless the owner writes `sandbox: off`; no other word or absence turns it off;
- unknown keys are refused, as in the policy, with file, line and dotted key;
- settings that take effect at once are public constants of a turn, how long turns are kept, when
  the model is in memory, the log's level, and where notices are shown: the owner chooses them
  without looking at memory, so when they change is public input (GUARANTEE §2).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from tactfuld.inference.offload import GpuUse
from tactfuld.problems import FileRefusedError, first_per_key
from tactfuld.yaml_file import read_text
from tactfuld.yaml_models import NAME_PATTERN, OwnersModel, validate
from tactfuld.yaml_text import read_yaml

ScorerName = Literal["embedding", "model"]


@dataclass(frozen=True, slots=True)
class AtOnce:
    """Marks a setting that a running daemon takes over; the others wait for its next start."""


@dataclass(frozen=True, slots=True)
class OfApps:
    """Marks what apps declare, not this program: `tactful apps set` sets it, at once."""


AppValue = bool | int | Decimal | Annotated[str, StringConstraints(max_length=500)]
"""What an app's own setting can hold; which of these, the app says."""


class SettingsError(FileRefusedError):
    """The settings were not accepted: the owner must change the file."""


Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]

MODEL_NAME = r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}"
"""What a model may be called: the name of its file, without the ending."""


def _name_or_whole_path(use: str) -> str:
    a_name = re.fullmatch(MODEL_NAME, use) and not use.endswith(".gguf")
    if not a_name and not use.startswith(("/", "~/")):
        raise ValueError(
            "write a name that `tactful model list` shows, or a whole path, beginning with / or ~/."
        )
    return use


def _optional(check: Callable[[str], str]) -> Callable[[str | None], str | None]:
    return lambda text: None if text is None else check(text)


class ModelSettings(OwnersModel):
    """The response model."""

    use: Annotated[str, AfterValidator(_name_or_whole_path)] = Field(
        default="smollm2",
        max_length=4096,
        description="an installed model by name, or a GGUF file by its whole path",
    )
    context: int = Field(
        default=2048, ge=512, le=131_072, description="how many tokens the model works with"
    )
    threads: int | None = Field(
        default=None, ge=1, le=1024, description="processor threads; null to choose by machine"
    )
    streams: int = Field(
        default=8,
        ge=1,
        le=16,
        description="how many answers to apps are written side by side",
    )
    idle_unload: Annotated[int | None, AtOnce()] = Field(
        default=None,
        ge=5,
        le=10_080,
        description="minutes without a question until the model's memory is freed; the next "
        "question loads it again; null for never",
    )
    pause_on_battery: Annotated[bool, AtOnce()] = Field(
        default=False,
        description="whether apps are refused answers while the machine runs on its battery; your "
        "own questions are answered",
    )


class LoggingSettings(OwnersModel):
    """What is logged; content never is."""

    level: Annotated[Literal["debug", "info", "warning", "error"], AtOnce()] = Field(
        default="info", description="the least important messages that are logged"
    )


class TurnSettings(OwnersModel):
    """The public shape of a turn."""

    deadline_ms: Annotated[int, AtOnce()] = Field(
        default=250,
        ge=1,
        le=60_000,
        description="the fixed time, in milliseconds, that charging and selecting take; choose it "
        "larger than the real work, or turns take a multiple of it",
    )


class AnswerSettings(OwnersModel):
    """The answers of the response model."""

    max_tokens: Annotated[int, AtOnce()] = Field(
        default=96, ge=1, le=4096, description="the most tokens of one answer"
    )
    memory_tokens: Annotated[int, AtOnce()] = Field(
        default=512,
        ge=16,
        le=16_384,
        description="the most tokens of memory that a fused answer is drawn with, empty places "
        "included; more take longer",
    )


class HistorySettings(OwnersModel):
    """How long the turns of apps are kept."""

    turns: Annotated[int, AtOnce()] = Field(
        default=50,
        ge=0,
        le=1000,
        description="how many turns of one app and thread are kept, and at most 10,000 of one app; "
        "0 keeps none",
    )
    days: Annotated[int, AtOnce()] = Field(
        default=90, ge=1, le=3650, description="for how many days they are kept"
    )


class LockSettings(OwnersModel):
    """When the profile locks by itself."""

    idle_minutes: int | None = Field(
        default=None,
        ge=1,
        le=10_080,
        description="minutes without a request of yours until it locks; null for never; what apps "
        "do, and what a screen asks again by itself, is no request of yours",
    )


CONSENT = "answers to apps leave this machine"
"""What the owner writes to say that they know what a remote endpoint means."""


def _endpoint_url(url: str) -> str:
    try:
        parts, port = urlsplit(url), urlsplit(url).port
    except ValueError:
        parts, port = urlsplit(""), None
    bare = not (parts.username or parts.password or parts.query or parts.fragment or port == 0)
    encrypted = parts.scheme == "https"
    if not parts.hostname or not bare or not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("write an address such as https://models.example/v1, without a key in it.")
    if not encrypted and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise ValueError("write https://; http:// only goes to this machine (127.0.0.1).")
    return url


_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


KEY_PLACE = r"keyring|(env|credential):[A-Za-z_][A-Za-z0-9_.-]{0,99}"
"""Where a key may be: in the keyring, a variable of the environment, a credential of systemd's."""


def _key_place(place: str) -> str:
    if not re.fullmatch(KEY_PLACE, place):
        raise ValueError("write keyring, env:NAME or credential:NAME; never the key itself.")
    return place


class RemoteSettings(OwnersModel):
    """An endpoint elsewhere that answers apps."""

    url: Annotated[str | None, AfterValidator(_optional(_endpoint_url)), AtOnce()] = Field(
        default=None,
        max_length=500,
        description="the base address of an OpenAI-compatible endpoint that answers apps in place "
        "of the model here; null for none. It is sent their queries, the guidance of released "
        "views, and the thread's turns, never memory",
    )
    consent: Annotated[Literal["answers to apps leave this machine"] | None, AtOnce()] = Field(
        default=None, description="these words, without which no address is accepted"
    )
    model: Annotated[str | None, AtOnce()] = Field(
        default=None, min_length=1, max_length=200, description="what the endpoint calls its model"
    )
    key: Annotated[str | None, AfterValidator(_optional(_key_place)), AtOnce()] = Field(
        default=None,
        description="where the key is: keyring, env:NAME or credential:NAME; null if it wants none",
    )
    seconds: Annotated[int, AtOnce()] = Field(
        default=120, ge=5, le=3600, description="for how long an answer is waited for"
    )

    @model_validator(mode="after")
    def _is_meant(self) -> Self:
        if self.url is not None and self.consent != CONSENT:
            raise ValueError(
                "url is set, so apps would be answered elsewhere; if you mean that, write "
                f"consent: {CONSENT}"
            )
        if self.url is not None and self.model is None:
            raise ValueError("url is set; write model: the name that the endpoint knows it by.")
        return self


class NoticesSettings(OwnersModel):
    """Where notices of apps are shown, besides the inbox."""

    desktop: Annotated[bool, AtOnce()] = Field(
        default=False,
        description="whether notices of apps are also shown on the desktop (notify-send, or "
        "osascript on macOS), which then keeps them as it likes",
    )


class Settings(OwnersModel):
    """One settings file."""

    sandbox: Literal["required", "off"] = Field(
        default="required", description="apps start only in a sandbox; off starts them without"
    )
    gpu: GpuUse = Field(
        default="auto",
        description="whether the model works on a GPU: auto if llama.cpp can; required, or the "
        "model does not load; off never",
    )
    scorer: ScorerName = Field(
        default="embedding",
        description="what judges which views your memories support: embedding compares sentences; "
        "model asks the language model, which takes it seconds whenever a view is drawn",
    )
    model: ModelSettings = Field(default_factory=ModelSettings, description="the response model")
    logging: LoggingSettings = Field(default_factory=LoggingSettings, description="what is logged")
    turn: TurnSettings = Field(
        default_factory=TurnSettings, description="the public shape of a turn"
    )
    answer: AnswerSettings = Field(
        default_factory=AnswerSettings, description="how long answers may be"
    )
    history: HistorySettings = Field(
        default_factory=HistorySettings, description="how long the turns of apps are kept"
    )
    remote: RemoteSettings = Field(
        default_factory=RemoteSettings, description="an endpoint elsewhere that answers apps"
    )
    apps: Annotated[dict[Name, dict[Name, AppValue]], OfApps()] = Field(
        default_factory=dict, max_length=256, description="what is set of the apps' own settings"
    )
    notices: NoticesSettings = Field(
        default_factory=NoticesSettings,
        description="where notices of apps are shown, besides the inbox",
    )
    lock: LockSettings = Field(
        default_factory=LockSettings, description="when the profile locks by itself"
    )


def load_settings(path: Path) -> Settings:
    """The settings at `path`; all defaults if there is no such file.

    Raises:
        SettingsError: the file cannot be read, or has problems.
    """
    try:
        text = read_text(path)
    except FileNotFoundError:
        return Settings()
    except FileRefusedError as error:
        raise SettingsError(error.problems) from error
    return parse_settings(text, source=str(path))


def parse_settings(text: str, *, source: str) -> Settings:
    """The settings of a text; `source` names it in problems.

    Raises:
        SettingsError: with every problem of the text.
    """
    yaml = read_yaml(text, source=source)
    if yaml.root is None and not yaml.problems:
        return Settings()
    if yaml.root is None:
        raise SettingsError(yaml.problems)
    settings, problems = validate(yaml, Settings)
    if settings is None or yaml.problems:
        raise SettingsError(first_per_key((*yaml.problems, *problems)))
    return settings
