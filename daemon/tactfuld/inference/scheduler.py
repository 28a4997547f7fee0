"""The apps' worker: begins the replies to apps and lets them go on side by side.

Decides: when a request is begun (who is next is said by places), how many are answered at once,
what of the KV cache each may take, and when what was computed is overwritten. Not here: what goes
into one call (lane), what is kept of a thread (prefixes), threads and states (engine).

Plain replies share one context; a sequence group has a context of its own for as long as it is
written, because its private rows hold memory: no other app's row is ever computed beside them, and
what they leave in the cache is overwritten and freed before the reader is told of the end.

Invariants
- Every decision follows from requests of apps, released ids and public sizes.
- A request that was begun has all the cells that it can take, so no call ever lacks one. The one
  that is next is begun as soon as there is room for it, and none overtakes it that takes room of
  the same kind: prompts have theirs, and groups have theirs.
- However a reply ends, its reader is told, and nothing of it is kept but its thread's prefix; not
  even that if turns of the thread were forgotten meanwhile.
- Where forgotten turns are to be overwritten, no prompt is begun before they are.
"""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from tactfuld.inference import generation
from tactfuld.inference.errors import EngineClosed, InferenceError
from tactfuld.inference.generation import Encoded, ReplyText
from tactfuld.inference.groups import GROUP_CONTEXTS, GroupDraw, SequenceGroup
from tactfuld.inference.lane import AllLogits, Lane, Reading, Stream, named, reading_of
from tactfuld.inference.places import AppLine
from tactfuld.inference.prefixes import MOST_PREFIXES, Prefix, Prefixes
from tactfuld.inference.public_row import public_row_stands_alone
from tactfuld.inference.requests import Forgetting, Fused, Request
from tactfuld.inference.sampling import Sampler, Sampling
from tactfuld.inference.worker import Loaded

if TYPE_CHECKING:
    from tactfuld.inference.llama_api import LlamaContext

# How many contexts' worth of KV cells the replies that are written side by side share.
SHARED_CONTEXTS: Final = 2
# Prefixes are forgotten when no app has asked for so long.
PREFIX_SECONDS: Final = 300.0


class Scheduler:
    """Serves the line of apps; all of it runs on one thread."""

    def __init__(
        self,
        loaded: Loaded,
        line: AppLine,
        context: LlamaContext,
        sampling: Sampling,
        streams: int,
    ) -> None:
        """Serve in `context`, with at most so many replies at once."""
        self._loaded = loaded
        self._line = line
        self._sampling = sampling
        self._most = streams
        self._lane = Lane(context, self._reply_ended)
        self._unused = list(range(sequences_for(streams)))
        self._cells: dict[Stream, int] = {}
        self._prefixes = Prefixes()
        self._groups: dict[Stream, tuple[Lane, ExitStack]] = {}
        self._apart: dict[int, bool] = {}
        self._clean = True
        # The shared cache has to be overwritten before a prompt is begun.
        self._overdue = False

    def serve(self) -> None:
        """Serve until the line is closed; then every reply ends with `EngineClosed`."""
        try:
            while self.turn(self._patience()):
                pass
        finally:
            for lane in self._lanes:
                lane.fail(EngineClosed())

    def turn(self, seconds: float | None) -> bool:
        """Begin what there is room for, and let every reply go on by at most one token.

        Waits at most so long for a request. Returns False once the line is closed.
        """
        work = self._line.work(seconds)
        if work == "closed":
            return False
        for what in self._line.forgettings():
            self._forget(what)
        if work == "some":
            self._begin()
        elif work == "none" and not self._running:
            self._prefixes.clear()
        for lane in self._lanes:
            lane.step()
        self._tidy()
        return True

    @property
    def _running(self) -> int:
        return len(self._cells) + len(self._groups)

    @property
    def _lanes(self) -> list[Lane]:
        return [self._lane, *(lane for lane, _ in self._groups.values())]

    def _patience(self) -> float | None:
        """How long to wait for a request: not at all while a reply is written."""
        if self._running:
            return 0
        return PREFIX_SECONDS if len(self._prefixes) else None

    def _forget(self, what: Forgetting) -> None:
        for prefix in self._prefixes.drop(what.covers):
            self._free(prefix)
        self._overdue = self._overdue or (what.overwrite and not self._clean)
        self._tidy()

    def _tidy(self) -> None:
        """Overwrite the shared cache once nothing in it is needed any more."""
        if self._overdue and not self._cells:
            # It can only be overwritten as a whole.
            self._prefixes.clear()
        if self._clean or self._cells or len(self._prefixes):
            return
        self._lane.context.clear(erase=True)
        self._unused = list(range(sequences_for(self._most)))
        self._clean = True
        self._overdue = False

    def _begin(self) -> None:
        """Begin requests in their order, as long as there is room for the next of its kind."""
        full: set[type] = set()
        while self._running < self._most:
            request = next((r for r in self._line.first() if type(r.asked) not in full), None)
            if request is None:
                return
            if not self._settled(request):
                full.add(type(request.asked))

    def _settled(self, request: Request) -> bool:
        """Begin a request, or tell it why it is never begun; False if it has to wait."""
        try:
            return self._began(request)
        except Exception as error:  # noqa: BLE001 - a reader must never wait for ever
            if self._line.take(request):
                self._line.end(request, named(error))
            return True

    def _began(self, request: Request) -> bool:
        """Begin a request if there is room for it now, or find that it has left.

        Raises `InferenceError` where it can never be answered.
        """
        if isinstance(request.asked, Fused):
            return self._began_group(request, request.asked)
        if self._overdue:
            return False
        loaded = self._loaded
        encoded = generation.encode(
            loaded.model, loaded.template, request.prompt, request.max_tokens
        )
        cells = len(encoded.prompt) + request.max_tokens
        if not self._makes_room(cells, request):
            return False
        if self._line.take(request):
            self._start_reply(request, encoded, cells)
        return True

    def _makes_room(self, cells: int, request: Request) -> bool:
        """Whether so many cells are free, after prefixes were dropped for them if need be."""
        room = self._lane.context.cells - sum(self._cells.values())
        if room < cells:
            return False
        own = self._prefixes.take(request.source)
        while room - self._prefixes.cells < cells:
            dropped = self._prefixes.drop_oldest()
            if dropped is None:
                break
            self._free(dropped)
        if own is not None:
            # It is the newest now, and the request goes on in its cells.
            self._prefixes.keep(request.source, own)
        return True

    def _start_reply(self, request: Request, encoded: Encoded, cells: int) -> None:
        text = ReplyText(self._loaded.model, request.max_tokens)
        opening = encoded.opening[: request.max_tokens]
        tokens = [*encoded.prompt, *opening]
        sampler = Sampler(self._sampling, secrets.randbits(32))
        sequence, known = self._sequence_for(request, tokens)
        stream = Stream(request, reading_of(tokens, sequence, known), text, _first_row(sampler))
        self._cells[stream] = cells
        self._lane.streams.append(stream)
        self._clean = False
        if not all(stream.say(token) for token in opening):
            self._lane.end(stream)

    def _sequence_for(self, request: Request, tokens: list[int]) -> tuple[int, int]:
        """A sequence to go on in, and how many of `tokens` it has already."""
        prefix = self._prefixes.take(request.source)
        if prefix is None:
            return self._unused.pop(), 0
        # A call that failed has emptied the cache under it.
        computed = self._lane.context.length(prefix.sequence)
        known = min(prefix.common(tokens), len(tokens) - 1, computed)
        try:
            self._lane.context.remove(prefix.sequence, known)
        except InferenceError:
            # A model that keeps one state for all it has read cannot go back in it.
            self._lane.context.remove(prefix.sequence)
            known = 0
        return prefix.sequence, known

    def _reply_ended(self, stream: Stream, error: InferenceError | None) -> None:
        del self._cells[stream]
        (sequence,) = stream.reading.sequences
        computed = self._lane.context.length(sequence)
        prefix = Prefix(sequence, tuple(stream.reading.read[:computed]))
        request = stream.request
        whole = error is None and not request.cancelled and computed > 0
        keeps = whole and not request.leaves_nothing
        gone = self._prefixes.keep(request.source, prefix) if keeps else (prefix,)
        for each in gone:
            self._free(each)
        self._line.end(request, error)

    def _free(self, prefix: Prefix) -> None:
        self._lane.context.remove(prefix.sequence)
        self._unused.append(prefix.sequence)

    def _began_group(self, request: Request, asked: Fused) -> bool:
        group, most = asked.group.reveal(), request.max_tokens
        length = self._loaded.model.context_length
        group.shape.refuse_unless_it_fits(most, length)
        cells = group.shape.cells(most)
        taken = sum(lane.context.cells for lane, _ in self._groups.values())
        if taken and taken + cells > GROUP_CONTEXTS * length:
            return False
        if self._line.take(request):
            try:
                self._start_group(request, group, asked.draw, cells)
            except Exception as error:  # noqa: BLE001 - a reader must never wait for ever
                self._line.end(request, named(error))
        return True

    def _start_group(
        self, request: Request, group: SequenceGroup, draw: GroupDraw, cells: int
    ) -> None:
        shape, model = group.shape, self._loaded.model
        if shape.rows not in self._apart:
            self._apart[shape.rows] = not public_row_stands_alone(model, shape.rows)
        with ExitStack() as stack:
            context = stack.enter_context(model.context(sequences=shape.rows, length=cells))
            lane = Lane(context, self._group_ended, apart=self._apart[shape.rows])
            sequences = tuple(range(shape.rows))
            reading = Reading(sequences, group.reading(), group.last(), shape.length - 1, [])
            stream = Stream(request, reading, ReplyText(model, request.max_tokens), draw)
            lane.streams.append(stream)
            self._groups[stream] = lane, stack.pop_all()

    def _group_ended(self, stream: Stream, error: InferenceError | None) -> None:
        lane, held = self._groups.pop(stream)
        with held:
            lane.context.clear(erase=True)
        self._line.end(stream.request, error)


def sequences_for(streams: int) -> int:
    """How many sequences the shared context needs: those of replies, and those of prefixes."""
    return streams + MOST_PREFIXES


def _first_row(sampler: Sampler) -> GroupDraw:
    def draw(logits: AllLogits) -> int:
        return sampler.draw(logits[0])

    return draw
