"""What the owner's tools may ask about the policy in force, and putting one in force at once.

Decides how what waits looks to the owner. What is *not* here: what may come into force when
(`tactfuld.policy.staging`), and looking at the file (`reload_methods`).
"""

from __future__ import annotations

from typing import Protocol

from tactful.owner_wire import OwnerMethod, PolicyApply, StagedPolicy
from tactful_core.promises import Promises
from tactfuld.policy_in_force import Staged
from tactfuld.server.session import Caller, Method, MethodTable


class PolicySteps(Protocol):
    """The policy in force and what comes after it; `tactfuld.policy_in_force.PolicyInForce`."""

    @property
    def promises(self) -> Promises: ...

    @property
    def in_next_epoch(self) -> Promises: ...

    @property
    def staged(self) -> Staged: ...

    async def open_epoch(self, period: int, after: int | None) -> int | None: ...

    async def apply_at_once(self, written: str) -> None: ...


def policy_methods(policy: PolicySteps) -> MethodTable:
    """The part of the owner's table that is about the policy in force."""

    async def apply(_caller: Caller, request: PolicyApply) -> StagedPolicy:
        await policy.apply_at_once(request.written)
        return staged_policy(policy.staged)

    return {OwnerMethod.POLICY_APPLY: Method(PolicyApply, apply)}


def staged_policy(staged: Staged) -> StagedPolicy:
    """What waits, for the owner's eyes."""
    return StagedPolicy(
        written=staged.written,
        at_tick=staged.at_tick,
        tick_at=staged.tick_at,
        at_epoch=staged.at_epoch,
        other_shelves=staged.other_shelves,
        at_once=staged.at_once,
    )
