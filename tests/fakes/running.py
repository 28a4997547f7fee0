"""Runs a coroutine of `tactful_core` to its end without an event loop.

The trusted base is `async` only because its ports are; with fakes that never wait for anything from
outside, stepping is enough. `interleave` steps several coroutines by turns.
"""

from collections.abc import Coroutine, Generator, Iterable, Sequence
from itertools import chain, cycle
from typing import TypeVar

T = TypeVar("T")


def run_now(coroutine: Coroutine[object, None, T]) -> T:
    """What the coroutine returns; its exceptions pass through, and a `Pause` is stepped over.

    Raises:
        RuntimeError: the coroutine waits for something that only an event loop can bring.
    """
    while True:
        try:
            awaited = coroutine.send(None)
        except StopIteration as finished:
            result: T = finished.value
            return result
        if awaited is not None:
            coroutine.close()
            raise RuntimeError("The coroutine waits for an event loop; `run_now` has none.")


class Pause:
    """Something to wait for, once: gives other coroutines a turn in tests of interleavings."""

    def __await__(self) -> Generator[None, None, None]:
        yield


def interleave(coroutines: Sequence[Coroutine[object, None, object]], order: Iterable[int]) -> None:
    """Steps the coroutines with these indices in turn, then runs what is left to its end."""
    waiting = dict(enumerate(coroutines))
    for index in chain(order, cycle(range(len(coroutines)))):
        if not waiting:
            return
        if index in waiting:
            try:
                waiting[index].send(None)
            except StopIteration:
                del waiting[index]
