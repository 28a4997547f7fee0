"""The scripted engine with a memory: what it was prompted with, and which replies have ended."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from tactful_core.values import Secret
from tactfuld.inference.engine import EngineState
from tactfuld.inference.places import Place
from tactfuld.inference.prompt import Prompt
from tactfuld.inference.scripted import Script, ScriptedEngine


class RecordingEngine(ScriptedEngine):
    """Implements `Engine`; `options` are those of `ScriptedEngine`.

    Attributes:
        prompts: of all replies to apps that were asked for, oldest first.
        ended: how many of them have ended: finished, failed, or closed.
        owner_prompts: of all replies to the owner, likewise.
        owner_ended: how many of those have ended.
    """

    def __init__(self, script: Script | str = "Lentil soup with bread.", **options: Any) -> None:
        super().__init__(script, **options)
        self.prompts: list[Prompt] = []
        self.ended = 0
        self.owner_prompts: list[Prompt] = []
        self.owner_ended = 0

    def enter(self, state: EngineState) -> None:
        """Be in this state from now on."""
        self._state = state

    async def generate(
        self, prompt: Prompt, *, max_tokens: int, place: Place | None = None
    ) -> AsyncGenerator[str, None]:
        self.prompts.append(prompt)
        try:
            reply = super().generate(prompt, max_tokens=max_tokens, place=place)
            async with aclosing(reply) as pieces:
                async for piece in pieces:
                    yield piece
        finally:
            self.ended += 1

    async def generate_for_owner(
        self, prompt: Secret[Prompt], *, max_tokens: int
    ) -> AsyncGenerator[str, None]:
        self.owner_prompts.append(prompt.reveal())
        try:
            async with aclosing(super().generate_for_owner(prompt, max_tokens=max_tokens)) as reply:
                async for piece in reply:
                    yield piece
        finally:
            self.owner_ended += 1
