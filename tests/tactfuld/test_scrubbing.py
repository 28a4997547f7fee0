"""A daemon overwrites what it frees; it starts itself anew where it was started without."""

from __future__ import annotations

import os
import sys

import pytest

from tactfuld import scrubbing
from tactfuld.scrubbing import overwriting, scrub_what_is_freed

glibc_only = pytest.mark.skipif(
    not scrubbing._has_glibc(),
    reason="there is no C library of GNU here",
)


@glibc_only
def test_a_process_without_is_replaced_by_one_with(monkeypatch: pytest.MonkeyPatch) -> None:
    replaced: list[tuple[object, ...]] = []
    monkeypatch.setattr(os, "execve", lambda *given: replaced.append(given))
    environ = {"HOME": "/home/me", "GLIBC_TUNABLES": "glibc.malloc.check=1:glibc.elision.enable=0"}
    scrub_what_is_freed(environ)
    [(program, arguments, given)] = replaced
    assert (program, arguments) == (sys.executable, sys.orig_argv)
    assert given == overwriting(environ)
    assert given == {
        "HOME": "/home/me",
        "PYTHONMALLOC": "malloc",
        "GLIBC_TUNABLES": "glibc.elision.enable=0:"
        "glibc.malloc.perturb=165:glibc.malloc.tcache_count=0",
    }


@glibc_only
def test_a_process_with_goes_on_and_its_children_are_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "execve", lambda *_: pytest.fail("It would never end."))
    environ = overwriting({"HOME": "/home/me"})
    scrub_what_is_freed(environ)
    assert environ == {"HOME": "/home/me"}


def test_elsewhere_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(os, "execve", lambda *_: pytest.fail("It knows no such variables."))
    environ = {"HOME": "/home/me"}
    scrub_what_is_freed(environ)
    assert environ == {"HOME": "/home/me"}
