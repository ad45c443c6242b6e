"""Plans that meet what is rare: content and faults chosen so that few seeds are needed to meet one rule."""

from __future__ import annotations

import random
from dataclasses import replace

from .plan import ABSENCES_S, ALL_LOUD, COMPARED_KINDS, FAULTS_FROM_S, FAULTS_UNTIL_S, Content, Plan, Rhythm


def of_kinds(plan: Plan, *kinds: str, rhythm: Rhythm | None = None) -> Plan:
    """Every partition holds one of these; no two in step."""
    chance = random.Random(plan.seed)

    def content_of(content: Content) -> Content:
        if rhythm:
            pace = replace(rhythm, every_s=rhythm.every_s * chance.uniform(0.8, 1.2))
            content = Content(kind=content.kind, rhythm=pace)
        return replace(content, kind=chance.choice(kinds))

    topics = tuple(tuple(map(content_of, topic)) for topic in plan.topics)
    return replace(plan, topics=topics, racing=plan.racing and set(kinds) <= set(COMPARED_KINDS))


def with_faults(plan: Plan, *kinds: str, count: int = 10, until_s: float = FAULTS_UNTIL_S) -> Plan:
    """Only of these kinds."""
    chance = random.Random(plan.seed)
    faults = sorted((chance.uniform(FAULTS_FROM_S, until_s), chance.choice(kinds)) for _ in range(count))
    return replace(plan, faults=tuple(faults), loud="", acts=())


def loud(plan: Plan, *kinds: str) -> Plan:
    """With one of these faults in the middle of the others; on content that alone stops nothing."""
    chance = random.Random(plan.seed)
    kind = chance.choice(kinds)
    others = [fault for fault in plan.faults if fault[1] not in ALL_LOUD]
    faults = sorted([*others, (chance.uniform(10.0, 80.0), kind)])
    return replace(of_kinds(plan, "fresh", "older, then fresh"), faults=tuple(faults), loud=kind, acts=())


def quiet(plan: Plan) -> Plan:
    """Without faults that stop a partition."""
    return replace(
        plan, faults=tuple(fault for fault in plan.faults if fault[1] not in ALL_LOUD), loud="", acts=()
    )


def racing(plan: Plan, *kinds: str, rhythm: Rhythm | None = None) -> Plan:
    return replace(of_kinds(plan, *kinds, rhythm=rhythm), racing=True, drivers=3, lanes=1)


LONELY = (
    "driver freezes",
    "driver is cut off",
    "driver is busy",
    "driver is killed",
    "lane is cut off",
    "lane is given up",
    "lane freezes",
)
STEADY = Rhythm(present=0, count=1, every_s=1.4)
QUICK = Rhythm(present=4, count=2, every_s=0.4)
BURSTS = Rhythm(present=0, count=32, every_s=15.0)
THEN_OLDER = "fresh, then older"


def mixed(
    plan: Plan,
    *,
    drivers: int,
    lanes: int = 2,
    faults: tuple[str, ...] = LONELY,
    count: int = 10,
    until_s: float = FAULTS_UNTIL_S,
    rhythm: Rhythm = STEADY,
    kind: str = "old and fresh in turn",
    late: float = 0.1,
    absences_s: tuple[tuple[float, float], ...] = ABSENCES_S,
) -> Plan:
    """Old and fresh records in turn, copiers that nobody can tell anything, and appends that come late."""
    plan = with_faults(of_kinds(plan, kind, rhythm=rhythm), *faults, count=count, until_s=until_s)
    return replace(
        plan,
        drivers=drivers,
        lanes=lanes,
        racing=False,
        late=late,
        absences_s=absences_s,
        expire_every_s=0.1,
        clogs=0.3,
        topics_exist=False,
    )


def broken_in_bursts(plan: Plan) -> Plan:
    """Copiers that race at full speed, and all must ask the target again in the middle of it."""
    chance = random.Random(plan.seed)
    faults = sorted(
        (15.0 * n + chance.uniform(0.0, 0.06), "lines break") for n in (1, 2, 3, 4) for _ in range(3)
    )
    topics = tuple(tuple(Content(kind="fresh", rhythm=BURSTS) for _ in topic) for topic in plan.topics)
    plan = replace(racing(plan, "fresh"), topics=topics)
    return replace(
        plan, drivers=4, brokers=1, min_insync=1, late=0.0, clogs=0.0, faults=tuple(faults), loud=""
    )
