"""The owner's worker: writes the replies to one line of requests, in a context made for each.

Decides: when a reply goes on, waits and stops. Not here: threads and states (engine), who is served
next (requests), what is decoded (generation), the replies to apps (scheduler).

Invariants
- Between two llama.cpp calls the line is asked whether the reply may go on.
- However a reply ends, its reader is told, and nothing of it is kept.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tactfuld.inference import generation
from tactfuld.inference.chat_template import ChatTemplate
from tactfuld.inference.errors import EngineClosed, InferenceError
from tactfuld.inference.lane import named
from tactfuld.inference.requests import Line, Request
from tactfuld.inference.sampling import Sampling

if TYPE_CHECKING:
    from tactfuld.inference.llama_api import LlamaContext, LlamaModel

    MakeContext = Callable[[], AbstractContextManager[LlamaContext]]


@dataclass(frozen=True, slots=True)
class Loaded:
    """What all workers of an engine share; nothing of it changes."""

    model: LlamaModel
    template: ChatTemplate


def serve(loaded: Loaded, line: Line, context: MakeContext, sampling: Sampling) -> None:
    """Serve a line until it is closed; `context` is entered for each reply."""
    while (request := line.next()) is not None:
        request.send(_answer(loaded, line, context, sampling, request))
        # The frame would hold the request while it waits for the next one.
        del request


def _answer(
    loaded: Loaded, line: Line, context: MakeContext, sampling: Sampling, request: Request
) -> InferenceError | None:
    """Stream one reply; return how it ended, without a traceback that would show its text."""
    model, most = loaded.model, request.max_tokens
    try:
        encoded = generation.encode(model, loaded.template, request.prompt, most)
        with context() as own:
            reply = generation.reply(model, own, encoded, most, sampling, secrets.randbits(32))
            with closing(reply) as pieces:
                return _stream(line, request, pieces)
    except Exception as error:  # noqa: BLE001 - a reader must never wait for ever
        return named(error)


def _stream(line: Line, request: Request, pieces: generation.Pieces) -> InferenceError | None:
    while line.wait_for_turn(request):
        piece = next(pieces, None)
        if piece is None:
            return None
        if piece:
            request.send(piece)
    return None if request.cancelled else EngineClosed()
