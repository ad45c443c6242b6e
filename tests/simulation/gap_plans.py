"""Plans that meet what is rare about gaps and alignments: content and faults chosen so that few seeds are needed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from heliograph.model.policy import OnLoss
from heliograph.model.start import LATEST

from .conditions import Conditions
from .gap_plan import ACCEPTED_LOSS, LINKS, Gaps
from .merging_plan import NO_MERGING
from .plan import ABSENCES_S, Content, Plan, Rhythm
from .rare_plans import QUICK, of_kinds, quiet, with_faults
from .source_transactions import NO_TRANSACTIONS

# What hands a partition on while markers of the last holder may be on their way.
HANDED_ON = ("lane is given up", "lane freezes", "lane is cut off", "hand-over", "lane's machine sleeps")
AGAIN_AND_AGAIN = ("lines break", "lines break", "messages are lost", *HANDED_ON)


def in_transactions(
    plan: Plan, *styles: str, rhythm: Rhythm = QUICK, log_start: int = 0, **gaps: Any
) -> Plan:
    """Every partition is written so, in turn, with fresh records; one driver."""
    plan = of_kinds(
        replace(quiet(plan), racing=False, drivers=1, lanes=2, topics_exist=False), "fresh", rhythm=rhythm
    )
    count = 0

    def written(content: Content) -> Content:
        nonlocal count
        count += 1
        style = styles[(plan.seed + count) % len(styles)] if styles else NO_TRANSACTIONS
        return replace(content, transactions=style, log_start=log_start)

    topics = tuple(tuple(map(written, topic)) for topic in plan.topics)
    return replace(plan, topics=topics, gaps=Gaps(**gaps))


def handed_on(plan: Plan, *styles: str, **gaps: Any) -> Plan:
    """Gaps everywhere, and holders that come and go while what they sent is late."""
    plan = with_faults(in_transactions(plan, *styles, **gaps), *AGAIN_AND_AGAIN, count=16, until_s=60.0)
    return replace(plan, late=0.2, clogs=0.3, absences_s=ABSENCES_S[:2])


def refused_in_bulk(plan: Plan) -> Plan:
    """Long gaps, and brokers that refuse a marker now and then while they take the next one."""
    plan = in_transactions(plan, "all aborted", "long ones", marks_refused=0.03, block_offsets=1 << 16)
    return replace(plan, brokers=3, min_insync=2, faults=())


def handed_on_and_refused(plan: Plan) -> Plan:
    """Gaps over many blocks, of which some must be repaired, while what former holders sent is late."""
    plan = handed_on(plan, "long ones", "all aborted", "some aborted", marks_refused=0.03)
    return replace(plan, brokers=3, min_insync=2, lanes=3, late=0.3)


def without_room(plan: Plan) -> Plan:
    """A lane so short of memory that partitions get no room in an answer."""
    plan = in_transactions(
        plan, "beside plain ones", NO_TRANSACTIONS, rhythm=Rhythm(present=40, count=12, every_s=6.0)
    )
    conditions = Conditions(lane_memory_bytes=1 << 12)
    return replace(plan, lanes=1, brokers=1, min_insync=1, faults=(), conditions=conditions)


def behind_gaps(plan: Plan) -> Plan:
    """Records behind gaps, and a target that must be asked where the copy stands, again and again."""
    plan = in_transactions(plan, "one after the other", "some aborted")
    return with_faults(plan, "lines break", "leader's epoch grows", "lane is killed", count=12)


def aligned(plan: Plan) -> Plan:
    """Logs that start above 0, with holders that come and go meanwhile."""
    plan = replace(in_transactions(plan, log_start=40), merging=NO_MERGING)
    return with_faults(plan, *AGAIN_AND_AGAIN, count=12, until_s=40.0)


def begun_later(plan: Plan) -> Plan:
    """Mirrors that begin at the end of a log that grows, with holders that come and go meanwhile."""
    rhythm = replace(QUICK, present=20)
    plan = replace(in_transactions(plan, starts=(LATEST,) * LINKS, rhythm=rhythm), merging=NO_MERGING)
    return with_faults(plan, *AGAIN_AND_AGAIN, count=12, until_s=40.0)


def losing(plan: Plan) -> Plan:
    """Retention that takes what was not copied yet, again and again, while lanes come and go and what they sent is
    late."""
    plan = in_transactions(plan, on_loss=(OnLoss.CONTINUE,) * LINKS)
    plan = with_faults(plan, *(ACCEPTED_LOSS,) * 4, "lane is killed", "lane freezes", "lines break", count=16)
    return replace(plan, late=0.2, absences_s=ABSENCES_S[:1], merging=NO_MERGING)
