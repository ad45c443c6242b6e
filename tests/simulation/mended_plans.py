"""Plans that meet faults which were mended: few other things happen, so that little else can hold a partition up."""

from __future__ import annotations

import random
from dataclasses import replace

from .conditions import UNBOUND, Bounds, Conditions
from .plan import Content, Plan, Rhythm
from .rare_plans import BURSTS, LONELY, QUICK, STEADY, loud, mixed, of_kinds, racing, with_faults
from .source_content import BATCHES

OLD_BURSTS = Rhythm(present=0, count=16, every_s=20.0)
SECONDS_MS = 1000
FORGOTTEN_MS = 60 * SECONDS_MS


def _alone(plan: Plan, *faults: tuple[float, str], brokers: int = 1) -> Plan:
    """One driver with one lane, and nothing comes late."""
    chance = random.Random(plan.seed)
    moved_s = chance.uniform(0.0, 5.0)
    return replace(
        plan,
        drivers=1,
        lanes=1,
        brokers=brokers,
        min_insync=1,
        racing=False,
        late=0.0,
        clogs=0.0,
        loud="",
        faults=tuple((at_s + moved_s, kind) for at_s, kind in faults),
    )


def starving(plan: Plan) -> Plan:
    """Old records that may not be sent for a minute, beside fresh ones, in a lane with little memory."""
    old, fresh = Content(kind="old", rhythm=OLD_BURSTS), Content(kind="fresh", rhythm=STEADY)
    plan = _alone(plan, (25.0, "lane is killed"))
    return replace(
        plan,
        topics=((old, old, fresh), (old, fresh)),
        # For fetches of both links at once, and little more: what waits for its turn waits as long as a poll hangs.
        conditions=Conditions(lane_memory_bytes=3 << 10),
        bounds=Bounds(stands_s=30.0, from_s=20.0),
    )


def killed(plan: Plan) -> Plan:
    return _alone(of_kinds(plan, "fresh", rhythm=STEADY), (25.0, "lane is killed"))


def polled_long(plan: Plan) -> Plan:
    """Old records come while the fetcher waits for others, of which none come, for longer than a lease lasts."""
    old = Content(kind="old", rhythm=Rhythm(present=0, count=BATCHES, every_s=15.0))
    still = Content(kind="fresh", rhythm=Rhythm(present=BATCHES, count=1, every_s=1.0))
    return replace(_alone(plan), topics=((old, still, still), (old, still)))


def throttled(plan: Plan) -> Plan:
    plan = _alone(of_kinds(plan, "fresh", rhythm=QUICK), (10.0, "quota"), (45.0, "quota"))
    return replace(plan, conditions=Conditions(throttles_s=(15.0, 40.0)))


def frozen(plan: Plan) -> Plan:
    """One of three brokers hangs while all partitions must be asked for, each of which it alone has or not."""
    moves = [(25.4 + at_s, "leader's epoch grows") for at_s in (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)]
    faults = ((25.0, "broker freezes"), (25.3, "lines break"), *moves)
    plan = _alone(of_kinds(plan, "fresh", rhythm=STEADY), *faults, brokers=3)
    return replace(
        plan,
        conditions=Conditions(questions_at_once=1, frozen_s=(20.0, 24.0), replicas=1),
        bounds=Bounds(stands_s=10.0, from_s=20.0),
    )


def replaced(plan: Plan) -> Plan:
    """One of three brokers hangs for long, is asked where partitions stand, and then others lead them."""
    return replace(
        frozen(plan),
        conditions=Conditions(frozen_s=(40.0, 60.0), replicas=2),
        bounds=Bounds(stands_s=15.0, from_s=20.0),
    )


def broken_at_the_source(plan: Plan) -> Plan:
    breaks = [(20.0 + 5.0 * n, "source's connections break") for n in range(12)]
    return replace(_alone(of_kinds(plan, "fresh", rhythm=STEADY), *breaks), bounds=Bounds(interruptions=5))


def broken_at_the_target(plan: Plan) -> Plan:
    """Some have nothing to read for long, and others come back to reading in the meantime: their target was away."""
    times = (20.0, 45.0, 70.0)
    faults = [fault for at_s in times for fault in ((at_s, "broker freezes"), (at_s + 0.3, "lines break"))]
    still = Content(kind="fresh", rhythm=Rhythm(present=BATCHES, count=1, every_s=1.0))
    steady = Content(kind="fresh", rhythm=STEADY)
    return replace(
        _alone(plan, *faults),
        topics=((steady, still, still), (steady, still)),
        conditions=Conditions(frozen_s=(3.0, 5.0)),
        bounds=Bounds(stands_s=10.0, from_s=15.0),
    )


def losing_fetches(plan: Plan) -> Plan:
    """Among others, requests by which partitions join a fetch session again."""
    faults = [(15.0 + 4.0 * n, "messages are lost") for n in range(16)]
    plan = broken_at_the_target(plan)
    return replace(plan, faults=tuple(sorted((*plan.faults, *faults))), bounds=UNBOUND)


def evicted(plan: Plan) -> Plan:
    evictions = [(20.0 + 5.0 * n, "fetch sessions are evicted") for n in range(12)]
    return replace(_alone(of_kinds(plan, "fresh", rhythm=STEADY), *evictions), bounds=Bounds(interruptions=5))


def rivals(plan: Plan) -> Plan:
    """Two drivers, each elected by a group of its own, copy old records; brokers forget nothing, so that all is well
    but for that."""
    plan = racing(mixed(plan, drivers=2, rhythm=BURSTS), "old", rhythm=BURSTS)
    return replace(plan, faults=(), expire_every_s=1000.0, bounds=Bounds(rivals=True))


def forgetful(plan: Plan) -> Plan:
    """Brokers that forget a producer after a minute, and lanes whose clocks are behind by no less."""
    plan = mixed(plan, drivers=2, kind="fresh", faults=LONELY)
    return replace(plan, conditions=Conditions(state_lasts_ms=FORGOTTEN_MS, lane_clock_ms=-FORGOTTEN_MS))


def without_ids(plan: Plan) -> Plan:
    """Leader epochs grow, then a topic begins anew, whose epochs are the first ones again."""
    kinds = ("leader's epoch grows", "source's leader moves")
    plan = with_faults(replace(plan, late=0.0), *kinds, count=24, until_s=40.0)
    plan = loud(plan, "target recreated", "source recreated")
    faults = tuple(fault if fault[1] != plan.loud else (50.0, plan.loud) for fault in plan.faults)
    return replace(
        plan,
        drivers=1,
        racing=False,
        faults=tuple(sorted(faults)),
        produces_by_id=False,
        conditions=Conditions(has_ids=False, gone_s=(0.0, 0.01)),
    )


def without_rights(plan: Plan) -> Plan:
    """Rights to a topic are lost, and lanes must ask who leads it."""
    plan = loud(
        with_faults(plan, "lines break", "lane is killed", "leader's epoch grows", count=24),
        "rights are lost",
    )
    return replace(plan, drivers=1, racing=False)


def unaware(plan: Plan) -> Plan:
    """The one broker restarts again and again, and each time knows no topic at first: nobody says more than that, and
    nobody says anything in between."""
    faults = ((20.0 + 14.0 * n, "broker restarts") for n in range(4))
    plan = _alone(of_kinds(plan, "fresh", rhythm=STEADY), *faults)
    return replace(plan, conditions=Conditions(down_s=(9.0, 10.0), unaware_s=(5.0, 6.0)))


def paused(plan: Plan) -> Plan:
    """A lane's machine is paused for so long that another lane has its partitions when it goes on."""
    return mixed(
        plan,
        drivers=1,
        faults=("lane's machine is paused",),
        count=2,
        until_s=30.0,
        absences_s=((66.0, 80.0),),
    )


def stuttering(plan: Plan) -> Plan:
    """A driver's machine is paused, again and again, while another driver is elected."""
    return mixed(plan, drivers=2, faults=("driver's machine stutters",), count=1, until_s=6.0)


def crammed(plan: Plan, rhythm: Rhythm = BURSTS) -> Plan:
    """Much to copy to a broker that hangs, by a lane with little memory."""
    plan = _alone(of_kinds(plan, "fresh", rhythm=rhythm), (4.0, "broker freezes"), (30.0, "broker freezes"))
    return replace(plan, conditions=Conditions(lane_memory_bytes=1 << 12, frozen_s=(8.0, 12.0)))


def trickling(plan: Plan) -> Plan:
    """Little by little, so that each answer is far smaller than the buffer that it comes in."""
    return crammed(plan, Rhythm(present=20, count=1, every_s=0.5))
