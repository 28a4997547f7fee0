"""What the owner's tools may ask about what only the running daemon can look at.

Decides which of its parts are looked at. What is *not* here: any check (`tactfuld.doctor`), and
what can be seen without the daemon (`tactfuld.doctor.examination`).
"""

from __future__ import annotations

import asyncio

from tactful.owner_wire import DoctorCheck, DoctorReply, OwnerMethod
from tactful.profile import Profile
from tactful.wire import Empty
from tactfuld.clock import Clock
from tactfuld.doctor.check import Check
from tactfuld.doctor.models import check_engine, check_offload
from tactfuld.doctor.stores import OpenStores, judged, outer_moments, store_facts
from tactfuld.inference.engine import Engine
from tactfuld.server.session import Caller, Method, MethodTable


def doctor_methods(
    profile: Profile, stores: OpenStores, engine: Engine, clock: Clock
) -> MethodTable:
    """The part of the owner's table that is about the profile's health."""

    async def doctor(_caller: Caller, _request: Empty) -> DoctorReply:
        outer = await asyncio.to_thread(outer_moments, profile)
        facts = await store_facts(profile, stores)
        checks = (
            *judged(facts, clock.now(), outer),
            check_engine(engine.name, engine.state, engine.problem),
            check_offload(engine.offload),
        )
        return DoctorReply(checks=tuple(map(told, checks)))

    return {OwnerMethod.DOCTOR: Method(Empty, doctor)}


def told(check: Check) -> DoctorCheck:
    """A check on the wire, and in what `tactfuld one-shot doctor` writes."""
    return DoctorCheck(name=check.name, state=check.state, detail=check.detail, advice=check.advice)
