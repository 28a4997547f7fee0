"""A real daemon answers apps from an endpoint elsewhere, and its owner from the model here.

The endpoint is a server on this machine that keeps every byte it is sent.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.end_to_end.processes import short_folder
from tests.fakes.daemon_process import SETTINGS, DaemonProcess, make_profile, serving, until_loaded
from tests.fakes.recording_endpoint import RecordingEndpoint, recording_endpoint, response, sending
from tests.model_fixture import embedded_model

from tactful.app_client import AppClient
from tactful.errors import ModelFailed
from tactful.owner_client import OwnerClient

__all__ = ["embedded_model"]

pytestmark = [pytest.mark.allow_hosts(["127.0.0.1"]), pytest.mark.timeout(180)]

KEY = "sk-quagga-0123456789"
MARKER = "kumquat marmalade"
QUERY = "What is a good dinner?"


@pytest.fixture
def server() -> Iterator[RecordingEndpoint]:
    with recording_endpoint() as serving_it:
        yield serving_it


@pytest.fixture
def daemon(
    embedded_model: Path, server: RecordingEndpoint, monkeypatch: pytest.MonkeyPatch
) -> Iterator[DaemonProcess]:
    assert embedded_model.exists()
    monkeypatch.setitem(os.environ, "BIG_KEY", KEY)
    remote = (
        "remote:\n  consent: answers to apps leave this machine\n"
        f"  url: {server.url}\n  model: big\n  key: env:BIG_KEY\n"
    )
    with short_folder() as folder:
        profile = make_profile(folder / "p", settings=SETTINGS + remote)
        with serving(profile) as started:
            yield started


async def test_apps_are_answered_elsewhere_and_the_owner_here(
    daemon: DaemonProcess, server: RecordingEndpoint
) -> None:
    async with OwnerClient.connect(daemon.profile) as owner:
        await until_loaded(owner)
        await owner.remember(f"I like {MARKER}.", "food.diet")
        token = (await owner.apps_grant("guest")).token
        async with AppClient.connect(daemon.profile, token) as guest:
            answer = await guest.ask(QUERY, slots=("food",))
            assert answer.text == "Lentil soup."
            assert (await owner.ask(f"Do I like {MARKER}?")).remembered == 1
            status = await owner.status()
            assert status.model.answers_from == server.host
            assert status.model.memory_bytes is not None
            assert server.connections == 1

            server.behave = sending(response(KEY.encode(), status="401 Unauthorized"))
            with pytest.raises(ModelFailed) as refused:
                await guest.ask(QUERY, slots=("food",))
            assert server.host not in str(refused.value)
            (notice,) = [n for n in (await owner.status()).notices if server.host in n]
            assert "refused the key" in notice

            daemon.profile.settings_file.write_text(SETTINGS)
            await owner.reload()
            assert (await guest.ask(QUERY, slots=("food",))).text not in ("", "Lentil soup.")
            assert (await owner.status()).model.answers_from is None
            assert server.connections == 2
    heard = bytes(server.received).decode("utf-8")
    assert QUERY in heard
    assert f"Bearer {KEY}" in heard
    for secret in (MARKER, "diabetes", "debt"):
        assert secret not in heard
    for text in (KEY, QUERY, MARKER, "Lentil"):
        assert text not in daemon.log
