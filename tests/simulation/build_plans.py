"""Plans of worlds whose sources are compacted, and whose target topics are built."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from heliograph.model.policy import OnLoss

from .gap_plan import ACCEPTED_LOSS, LINKS, Gaps, losses_of
from .merging_plan import NO_MERGING
from .plan import ABSENCES_S, FAULTS_FROM_S, Content, Plan, Rhythm
from .rare_plans import of_kinds, quiet, with_faults

# What hands a partition on, or interrupts it, in whatever step of its build; no clock jumps: that a marker begins a
# segment rests on them, but for a few seconds (copier/sealing.py).
INTERRUPTED = (
    "lane freezes",
    "lane is killed",
    "lane is cut off",
    "lane is given up",
    "lines break",
    "messages are lost",
    "hand-over",
    "driver freezes",
    "driver is killed",
    "driver is stopped",
    "source's leader moves",
    "source's connections break",
    "broker restarts",
    "broker freezes",
)
WITH_REPLICAS = ("leader moves", "follower lags", "follower comes back shorter")
PRESENT = Rhythm(present=40, count=4, every_s=3.0)
GROWING = Rhythm(present=8, count=2, every_s=1.0)


def built(
    plan: Plan, *kinds: str, count: int | None = None, until_s: float = 60.0, log_start: int = 0, **more: Any
) -> Plan:
    """Every partition is compacted, and its target new. In some worlds faults come thick, in others some come when
    brokers clean, or later."""
    kinds = kinds or ("built", "built, old", "built, old in turn")
    count = (3, 6, 10, 16)[plan.seed % 4] if count is None else count
    plan = of_kinds(replace(quiet(plan), racing=False, topics_exist=False), *kinds, rhythm=PRESENT)

    def written(content: Content) -> Content:
        return replace(content, log_start=log_start, codecs="gzip in between")

    topics = tuple(tuple(map(written, topic)) for topic in plan.topics)
    faults = INTERRUPTED + WITH_REPLICAS * (plan.brokers > 1)
    plan = with_faults(replace(plan, topics=topics), *faults, count=count, until_s=until_s)
    plan = replace(plan, builds=True, gaps=Gaps(), merging=NO_MERGING, absences_s=ABSENCES_S[:2])
    return replace(plan, **more)


def built_late(plan: Plan) -> Plan:
    """What former holders sent comes late."""
    return built(plan, "built, old in turn", late=0.2, clogs=0.3, expire_every_s=0.1)


def built_from_above(plan: Plan) -> Plan:
    return built(plan, log_start=40)


def built_and_overtaken(plan: Plan) -> Plan:
    """Retention takes what was not copied yet, again and again."""
    plan = built(plan, gaps=Gaps(on_loss=(OnLoss.CONTINUE,) * LINKS))
    faults = sorted(
        [*plan.faults, *losses_of(plan.seed, FAULTS_FROM_S, 60.0), (FAULTS_FROM_S, ACCEPTED_LOSS)]
    )
    return replace(plan, faults=tuple(faults))


def built_while_it_grows(plan: Plan) -> Plan:
    """The last hole moves on while the first holders go, and what they sent comes late."""
    plan = built(plan, "built, of today", late=0.5, clogs=0.3)
    topics = tuple(tuple(replace(content, rhythm=GROWING) for content in topic) for topic in plan.topics)
    gone = ("lane is given up", "lane is given up", "lane freezes", "lane is cut off", "hand-over")
    return with_faults(replace(plan, topics=topics), *gone, count=8, until_s=16.0)
