"""Waiting for the model to load, with a progress bar.

Decides how often the daemon is asked. What is *not* here: what loading means (the daemon).
"""

from __future__ import annotations

import asyncio

from rich.console import Console

from tactful.cli.progress import progress_bar
from tactful.owner_client import OwnerClient
from tactful.owner_wire import Status
from tactful.visible_text import visible

EVERY_SECONDS = 0.2


async def until_model_is_loaded(client: OwnerClient, notes: Console) -> Status:
    """Returns the first status in which the model is no longer loading: ready, or failed."""
    with progress_bar(notes, "loading the model") as report:
        while (status := await client.status()).model.state == "loading":
            what = f"loading {visible(status.model.name)}"
            report(what, round(status.model.progress * 100), 100)
            await asyncio.sleep(EVERY_SECONDS)
    return status
