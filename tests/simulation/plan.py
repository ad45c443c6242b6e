"""What a seed stands for: how many drivers, lanes and brokers, what the sources hold, which faults happen when."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from heliograph.model.policy import EARLIEST, OnLoss

from .conditions import ORDINARY, UNBOUND, Bounds, Conditions
from .gap_plan import (
    BARREN,
    IN_RANDOM_PLANS,
    LOUD_FAULTS,
    NO_GAPS,
    OVERTAKEN,
    Gaps,
    faults_of,
    gaps_of,
    log_starts_of,
    losses_of,
    styles_of,
)
from .merging_plan import NO_MERGING, Merging, codecs_of, merging_of
from .operator_plan import Acts, acts_of, loses_at
from .source_content import AGES_HOURS, BATCHES, KINDS, PLAIN
from .source_transactions import NO_TRANSACTIONS

FAULTS_FROM_S, FAULTS_UNTIL_S = 4.0, 90.0
GROWN_BY_S = 85.0
FEWEST_FAULTS, FEWEST_APPENDS = 5, 200
PARTITIONS = 5
OF_FIRST_LINK = 3

# How long a process stands still or is cut off: for a moment, for longer than leases last, for longer than it takes
# until another holder sends old records.
ABSENCES_S = ((1.0, 10.0), (8.0, 45.0), (60.0, 96.0))
QUIET = (
    "lane freezes",
    "lane freezes",
    "lane's machine sleeps",
    "lane's machine is paused",
    "driver's machine stutters",
    "lane is killed",
    "lane is cut off",
    "lane is given up",
    "lines break",
    "messages are lost",
    "hand-over",
    "driver freezes",
    "driver is busy",
    "driver is cut off",
    "driver is killed",
    "driver is stopped",
    "coordinator fails over",
    "lane's clock jumps",
    "brokers' clock jumps",
    "source's leader moves",
    "source's connections break",
    "fetch sessions are evicted",
    "quota",
    "segment is rolled",
    "broker restarts",
    "broker freezes",
    "leader's epoch grows",
    "target takes less",
)
QUIET_WITH_REPLICAS = (
    "leader moves",
    "leader moves",
    "unclean election",
    "unclean election",
    "follower lags",
    "followers lag",
    "follower comes back shorter",
)
LOUD = (
    "foreign writer",
    "target recreated",
    "source truncated",
    "source recreated",
    "target stamps its time",
    "rights are lost",
)
ALL_LOUD = (*LOUD, *LOUD_FAULTS)
# Of these, those that stop every partition of the topic.
LOUD_FOR_TOPIC = ("target recreated", "source recreated", "target stamps its time", "rights are lost")
# Kinds of content that the target can always compare: what a race without an election needs. Gaps need one.
COMPARED_KINDS = ("fresh", "alike", "big", "future")
# Kinds of which some wait for a lease, or until appends of the last holder are over.
OLD_KINDS = tuple(kind for kind in KINDS if any(AGES_HOURS[kind](at) > 0 for at in range(BATCHES)))
# Kinds of content that stop a partition.
STOPPING_KINDS = ("big", "big and old", "future")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """How a source partition grows: what is there at first, then `count` batches `every_s`."""

    present: int
    count: int
    every_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """`transactions`: how its producers write (source_transactions.py). `log_start`: where its log starts at first."""

    kind: str
    rhythm: Rhythm
    batches: int = BATCHES
    codecs: str = PLAIN
    transactions: str = NO_TRANSACTIONS
    log_start: int = 0

    @property
    def has_gaps(self) -> bool:
        return bool(self.transactions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`topics`: for each link, what each partition of its one topic holds. `drivers`: those that stand for election,
    each with `lanes` lanes of its own. `racing`: each is elected by a group of its own, and all of them copy.

    `loud`: a fault after which the `loud_at`-th partition, or its topic, need only be stopped."""

    seed: int
    drivers: int
    lanes: int
    brokers: int
    min_insync: int
    topics: tuple[tuple[Content, ...], ...]
    topics_exist: bool
    racing: bool
    produces_by_id: bool
    expire_every_s: float
    late: float
    clogs: float
    loud: str = ""
    loud_at: int = 0
    regrows_at_once: bool = False  # a source that is truncated holds other records there already
    faults: tuple[tuple[float, str], ...] = ()
    absences_s: tuple[tuple[float, float], ...] = ABSENCES_S
    conditions: Conditions = ORDINARY
    bounds: Bounds = UNBOUND
    merging: Merging = NO_MERGING
    gaps: Gaps = NO_GAPS
    acts: Acts = ()  # of an operator (operator_plan.py)
    fewest_appends: int = 0  # until as many were executed the sources grow on
    builds: bool = False  # the sources are compacted, and their targets are built (build_plans.py)

    @property
    def kinds(self) -> list[str]:
        return [content.kind for topic in self.topics for content in topic]


def plan_of(seed: int) -> Plan:
    return with_operator(with_gaps(_plan_of(seed))) if IN_RANDOM_PLANS else _plan_of(seed)


def with_operator(plan: Plan) -> Plan:
    """The same with an operator, who may have a loss to accept; not where drivers race, each elected by a group of its
    own: both would hear of its commands."""
    acts = () if plan.racing else acts_of(plan.seed, FAULTS_UNTIL_S)
    loses = loses_at(plan.seed, FAULTS_FROM_S, FAULTS_UNTIL_S, PARTITIONS)
    if acts and loses is not None and not plan.loud and plan.kinds[loses[1]] not in STOPPING_KINDS:
        at_s, which = loses
        plan = replace(
            plan, loud=OVERTAKEN, loud_at=which, faults=tuple(sorted([*plan.faults, (at_s, OVERTAKEN)]))
        )
    return replace(plan, acts=acts)


def with_gaps(plan: Plan) -> Plan:
    """The same, but for transactions, log starts above 0, mirrors that begin later, losses that are accepted, and what
    comes with them. Where only the sequence tells that a record is too many, there are none: a gap takes no sequence.
    Nor are there transactions, accepted losses, or later beginnings where drivers race, each elected by a group of its
    own: attempts at a gap are given out by one group, and only one may say where a mirror begins."""
    seed = plan.seed
    drawn = iter(
        zip(
            styles_of(seed, PARTITIONS),
            log_starts_of(seed, PARTITIONS),
            strict=True,
        )
    )

    def with_its(content: Content) -> Content:
        style, start = next(drawn)
        if content.kind == "alike":
            return content
        if plan.loud and style in BARREN:
            style = NO_TRANSACTIONS  # a topic stops there: too little would be left to copy
        style = NO_TRANSACTIONS if plan.racing else style
        return replace(content, transactions=style, log_start=start)

    topics = tuple(tuple(map(with_its, topic)) for topic in plan.topics)
    gaps = gaps_of(seed)
    alike = [any(content.kind == "alike" for content in topic) for topic in topics]
    starts = [EARLIEST if alone else start for alone, start in zip(alike, gaps.starts, strict=True)]
    gaps = replace(gaps, starts=tuple(starts))
    faults = [*plan.faults, *faults_of(seed, FAULTS_FROM_S, FAULTS_UNTIL_S)]
    if plan.racing:
        gaps = replace(gaps, on_loss=NO_GAPS.on_loss, starts=NO_GAPS.starts)
    elif OnLoss.CONTINUE in gaps.on_loss:
        faults += losses_of(seed, FAULTS_FROM_S, FAULTS_UNTIL_S)
    return replace(plan, topics=topics, faults=tuple(sorted(faults)), gaps=gaps)


def _plan_of(seed: int) -> Plan:
    chance = random.Random(seed)
    brokers = chance.choice((1, 3, 3))
    racing = chance.random() < 0.2
    topics = _topics(chance, COMPARED_KINDS if racing else KINDS, codecs_of(seed, PARTITIONS))
    loud = chance.choice(ALL_LOUD if IN_RANDOM_PLANS else LOUD) if chance.random() < 0.4 else ""
    quiet = QUIET + QUIET_WITH_REPLICAS * 2 if brokers > 1 else QUIET
    count = chance.choice((FEWEST_FAULTS, 7, 10, 16))
    faults = [(_when(chance), chance.choice(quiet)) for _ in range(count)]
    loud_at = chance.randrange(PARTITIONS)
    all_kinds = [content.kind for topic in topics for content in topic]
    if "alike" in all_kinds:
        loud, loud_at = (
            "foreign writer",
            all_kinds.index("alike"),
        )  # only the sequence tells that one is too many
    merging = merging_of(seed, racing=racing)
    topics = _lengthened(topics, loud, loud_at, merging)
    if loud:
        faults.append((_when(chance), loud))
    return Plan(
        seed=seed,
        drivers=2 if racing else chance.choice((1, 1, 2)),
        lanes=1 if racing else chance.choice((1, 2, 2, 3)),
        brokers=brokers,
        min_insync=chance.choice((1, 2)) if brokers > 1 else 1,
        topics=topics,
        topics_exist=chance.random() < 0.3,
        racing=racing,
        produces_by_id=chance.random() < 0.7,
        expire_every_s=chance.choice((0.3, 2.0, 7.0)),
        late=chance.choice((0.0, 0.02, 0.1, 0.2)),
        clogs=chance.choice((0.0, 0.05, 0.3)),
        loud=loud,
        loud_at=loud_at,
        regrows_at_once=chance.random() < 0.3,
        faults=tuple(sorted(faults)),
        merging=merging,
        fewest_appends=FEWEST_APPENDS,
    )


def _topics(
    chance: random.Random, kinds: tuple[str, ...], codecs: list[str]
) -> tuple[tuple[Content, ...], ...]:
    """At most one partition of kinds that stop it: the others are to be copied to their end."""
    lasting = [kind for kind in kinds if kind not in (*STOPPING_KINDS, "alike")]
    chosen = [chance.choice(lasting) for _ in range(PARTITIONS)]
    chosen[chance.randrange(PARTITIONS)] = chance.choice(kinds)
    contents = [
        Content(kind=kind, rhythm=rhythm_of(chance), codecs=how)
        for kind, how in zip(chosen, codecs, strict=True)
    ]
    return tuple(contents[:OF_FIRST_LINK]), tuple(contents[OF_FIRST_LINK:])


def _lengthened(
    topics: tuple[tuple[Content, ...], ...], loud: str, loud_at: int, merging: Merging
) -> tuple[tuple[Content, ...], ...]:
    """What may be stopped early counts for nothing: the partitions that are copied to their end make up for it, so that
    every world sees FEWEST_APPENDS, however many batches are in one. They grow in larger steps, which costs no more
    turns."""
    of_first_link = loud_at < OF_FIRST_LINK

    def lasts(at: int, content: Content) -> bool:
        same_topic = (at < OF_FIRST_LINK) is of_first_link
        stopped = same_topic if loud in LOUD_FOR_TOPIC else bool(loud) and at == loud_at
        return not stopped and content.kind not in STOPPING_KINDS

    contents = [content for topic in topics for content in topic]
    lasting = [lasts(at, content) for at, content in enumerate(contents)]
    appends = -(-FEWEST_APPENDS // sum(lasting))

    def longer_of(at: int, content: Content) -> Content:
        if not lasting[at]:
            return content
        batches = max(BATCHES, appends * merging.batches_at_once(at >= OF_FIRST_LINK))
        count = content.rhythm.count * -(-batches // BATCHES)
        return replace(content, batches=batches, rhythm=replace(content.rhythm, count=count))

    longer = [longer_of(at, content) for at, content in enumerate(contents)]
    return tuple(longer[:OF_FIRST_LINK]), tuple(longer[OF_FIRST_LINK:])


def rhythm_of(chance: random.Random) -> Rhythm:
    """All is there before the faults are over, in bursts or one by one."""
    present, count = chance.choice((0, 5, 20)), chance.choice((1, 2, 6, 12))
    bursts = -(-(BATCHES - present) // count)
    return Rhythm(present=present, count=count, every_s=chance.uniform(0.3, 1.0) * GROWN_BY_S / bursts)


def _when(chance: random.Random) -> float:
    return chance.uniform(FAULTS_FROM_S, FAULTS_UNTIL_S)
