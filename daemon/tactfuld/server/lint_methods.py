"""What the owner's tools may call about coverage.

Decides how the coverage lint looks to the owner. What is *not* here: what is found
(`tactfuld.coverage_lint`).

Invariant: texts are not in errors and not in logs; replies to the owner are the only place they go.
"""

from __future__ import annotations

import asyncio

from tactful.owner_wire import CoverageWarning, LintFinding, LintReply, MemoryItem, OwnerMethod
from tactful.wire import Empty
from tactfuld.coverage import Sureness
from tactfuld.coverage_lint import CoverageLint, Finding, Uncovered
from tactfuld.server.session import Caller, Method, MethodTable
from tactfuld.store.memory import MemoryStore


def lint_methods(store: MemoryStore, lint: CoverageLint) -> MethodTable:
    """The part of the owner's table that is about coverage."""
    shelf_of = {p: shelf.name for shelf in lint.layout.shelves for p in shelf.positions}

    def finding(found: Finding) -> LintFinding:
        item = MemoryItem(
            position=found.position,
            shelf=shelf_of[found.position],
            text=found.memory.text,
            written_at=found.memory.written_at,
        )
        return LintFinding(item=item, warning=coverage_warning(found.uncovered))

    async def look(_caller: Caller, _request: Empty) -> LintReply:
        full = await store.listing()
        found = await asyncio.to_thread(lint.findings, full)
        names = (each.name for each in lint.layout.attributes)
        return LintReply(
            findings=tuple(map(finding, found)),
            looked_for=lint.looked_for,
            unknown=tuple(name for name in names if name not in lint.looked_for),
        )

    return {OwnerMethod.POLICY_LINT: Method(Empty, look)}


def coverage_warning(uncovered: Uncovered) -> CoverageWarning:
    """A finding as it goes to the owner."""

    def named(sureness: Sureness) -> tuple[str, ...]:
        return tuple(name for name, each in uncovered.attributes.items() if each is sureness)

    return CoverageWarning(
        likely=named(Sureness.LIKELY),
        possible=named(Sureness.POSSIBLE),
        better=None if uncovered.better is None else uncovered.better.name,
    )
