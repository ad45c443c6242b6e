"""A world made from one seed: clusters, drivers and lanes that run the real code, faults, and the judge.

    sf ──▶ orders (3 partitions) ──▶ nyc        two links, on the same lanes; elections by groups on nyc
    lax ─▶ payments (2 partitions) ─▶ nyc

Everything happens on one schedule of virtual time, and every chance is drawn from the seed: a seed is a story that can
be told again, with a trace.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from heliograph.controller.build_settings import phase_of
from heliograph.copier.sealing import SEGMENT_MS
from heliograph.engine.orders import Occurrences, Report
from heliograph.model.config_rules import ConfigRules
from heliograph.model.events import Event
from heliograph.model.link import Link
from heliograph.model.partition import MirrorPartition, TopicPartition
from heliograph.model.partition_status import PartitionStatus
from heliograph.model.policy import Isolation
from heliograph.model.settings import Settings, SparkSettings

from .faults import Faults
from .gap_plan import Gaps
from .group_side import SimGroup
from .judge import PartitionJudge, Wrong
from .ledger_eye import LedgerEye
from .log_cleaner import clean
from .long_poll import WaitingFetch
from .model_broker import ModelPartition
from .outside import in_the_place_of_the_outside
from .plan import FAULTS_UNTIL_S, Content, Plan, plan_of
from .raw_batch import FOREVER_MS, HOUR_MS, TopicRules
from .schedule import Schedule
from .sim_cluster import SimCluster, SimTopic
from .sim_driver import SimDriver
from .sim_lane import SimLane
from .sim_operator import SimOperator
from .source_content import BIG_AT, BIG_BYTES, EPOCH_MS
from .source_log import SourceLog
from .target_log import TargetLog
from .watch import Watch

MEND_S = FAULTS_UNTIL_S + 10.0
SETTLED_S = 6.0  # after the last arrival of whatever was on its way, and after the faults
LIMIT_S = MEND_S + 300.0
LATE_MOST_S = 28.0
LENGTHENED_BY = 30  # batches, where a world has seen too few appends
CLUSTERS = ("sf", "lax", "nyc")
AS_THEY_ARE = ConfigRules(sync=False)  # sources' configs never change in a world
LINKS = (
    Link(name="sf-to-nyc", source="sf", target="nyc", topics=("orders",), topic_configs=AS_THEY_ARE),
    Link(name="lax-to-nyc", source="lax", target="nyc", topics=("payments",), topic_configs=AS_THEY_ARE),
)
# Kafka's own defaults, but for small fetches, and long polls so that idleness costs no turns.
PROPERTIES = {
    "bootstrap.servers": "nowhere:1",
    "fetch.max.wait.ms": "20000",
    "max.partition.fetch.bytes": "600",
}
QUIET_EXPIRY_S = 7.0
CLEANED_S = 1.5
START_NOTED_S = 60.0  # log.flush.start.offset.checkpoint.interval.ms

Trace = Callable[[str], None]


class Met(NamedTuple):
    """How much a world has met: partitions and links, batches that brokers of the target appended, faults that
    happened, appends that held several batches of the source, and appends that were refused because somebody was first
    (OUT_OF_ORDER_SEQUENCE_NUMBER)."""

    partitions: int
    links: int
    appends: int
    faults: int
    merges: int
    out_of_order: int


class Verdict(NamedTuple):
    """`excused`: it met what nothing can guard against (PartitionJudge.misplaced_unawares)."""

    plan: Plan
    wrong: str
    took_s: float
    excused: bool
    met: Met

    @property
    def command(self) -> str:
        return f"python -m tests.simulation --seed {self.plan.seed}"


class World(Schedule):
    def __init__(self, plan: Plan, trace: Trace | None = None) -> None:
        super().__init__()
        self.plan = plan
        self.chance = random.Random(plan.seed)
        self.loss = 0.0
        self.throttled = False
        self.broker_jump_ms = 0
        self.mended = False
        self.last_arrival = 0.0  # of an append at a broker
        self.links = _with_policies(plan.gaps)
        self.starts = {link.name: link.policy.start for link in self.links}
        self.settings = Settings(
            clusters=dict.fromkeys(CLUSTERS, PROPERTIES),
            links=self.links,
            spark=SparkSettings(),
            lanes=plan.lanes,
            lane_memory_bytes=plan.conditions.lane_memory_bytes,
        )
        self.processes: list[SimDriver | SimLane] = []
        self.lanes: list[SimLane] = []
        self.fetches: dict[WaitingFetch, None] = {}
        self.traces = trace is not None
        self._trace = trace
        self._problem: dict[str, Any] | None = None
        self._groups: dict[tuple[str, int], SimGroup] = {}
        nodes = range(1, plan.brokers + 1)
        self.clusters = {name: SimCluster(self, name, nodes) for name in CLUSTERS}
        self.sizes = {  # what a batch of each topic may have now, at the source and at the target
            link.topics[0]: sizes for link, sizes in zip(LINKS, plan.merging.sizes, strict=True)
        }
        self._first_sizes = dict(self.sizes)
        self.judges: list[PartitionJudge] = []
        self.eye = LedgerEye(self)
        self.clusters["nyc"].takes_markers = plan.gaps.may_mark
        for link, contents in zip(self.links, plan.topics, strict=True):
            self._make_topics(link, contents)
        self.drivers: list[SimDriver] = []
        self.faults = Faults(self)
        self.watch = Watch(self)
        self.operator = SimOperator(self)
        self.after(MEND_S, self._mend)
        self.after(plan.expire_every_s, self._expire_producers)
        if plan.gaps.forgets_starts:
            self.after(START_NOTED_S, self._note_starts)
        if plan.builds:
            self.after(CLEANED_S, self._clean)

    def _make_topics(self, link: Link, contents: Sequence[Content]) -> None:
        (name,) = link.topics
        kinds = [content.kind for content in contents]
        source, target = self.clusters[link.source], self.clusters[link.target]
        brokers = source.nodes

        def sources(number: int, topic_id: str) -> ModelPartition:
            order = brokers[number % len(brokers) :] + brokers[: number % len(brokers)]
            rules = TopicRules(index_interval_bytes=self.plan.gaps.index_bytes)
            return ModelPartition(topic_id, brokers=order[:2], rules=rules, now_ms=lambda: self.wall_ms)

        def targets(number: int, topic_id: str) -> ModelPartition:
            order = brokers[number % len(brokers) :] + brokers[: number % len(brokers)]
            sizes = self.sizes[name]
            if kinds[number] in BIG_AT:  # less than any driver knows
                sizes = replace(sizes, max_message_bytes=min(BIG_BYTES, sizes.max_message_bytes))
            rules = TopicRules(
                sizes=sizes,
                min_insync=self.plan.min_insync,
                producer_expiration_ms=self.plan.conditions.state_lasts_ms,
                timestamp_after_max_ms=HOUR_MS if kinds[number] == "future" else FOREVER_MS,
                segment_ms=SEGMENT_MS if self.plan.builds else None,
            )
            return ModelPartition(
                topic_id,
                brokers=order[: self.plan.conditions.replicas],
                rules=rules,
                now_ms=lambda: self.wall_ms + self.broker_jump_ms,
            )

        def source_log(number: int, make: Callable[[str], ModelPartition]) -> SourceLog:
            committed = link.policy.isolation is Isolation.READ_COMMITTED
            story = f"{self.plan.seed} {name} {number}"
            return SourceLog(make, source, contents[number], story=story, committed=committed)

        many = range(len(contents))
        from_topic = source.add_topic(name, [(partial(source_log, n), partial(sources, n)) for n in many])
        to_topic = target.add_topic(
            name, [(lambda make: TargetLog(make, target), partial(targets, n)) for n in many]
        )
        for number in many:
            key = MirrorPartition(link.name, name, name, number)
            ours, theirs = from_topic.logs[number], to_topic.logs[number]
            assert isinstance(ours, SourceLog)
            assert isinstance(theirs, TargetLog)
            ours.on_change = partial(self.wake_fetches, TopicPartition(name, number))
            self.judges.append(PartitionJudge(self, key, contents[number], ours, theirs))
        if not self.plan.topics_exist:
            to_topic.delete()
        if self.plan.builds:
            from_topic.settings = {"cleanup.policy": "compact"}

    def tell(self, *words: Any) -> None:
        if self._trace is not None:
            self._trace(f"{self.now:8.3f} " + " ".join(map(str, words)))

    def problem(self, context: dict[str, Any]) -> None:
        """Something that production code must never meet."""
        self._problem = self._problem or context

    # -- losses

    def hear_of_losses(self, report: Report) -> None:
        """A driver hears this of a lane."""
        for told in report.occurrences if isinstance(report, Occurrences) else ():
            if told.code is Event.LOSS_ACCEPTED:
                (judge,) = (
                    each
                    for each in self.judges
                    if (each.key.link, each.key.partition) == (told.link, told.partition)
                )
                assert told.first_offset is not None
                assert told.next_offset is not None
                judge.told_of_loss(told.first_offset, told.next_offset)

    # -- clocks and chances

    @property
    def wall_ms(self) -> int:
        return EPOCH_MS + int(self.now * 1000)

    def time_of_day(self) -> datetime:
        return datetime.fromtimestamp(self.wall_ms / 1000, UTC)

    def delay_s(self, *, may_be_late: bool = False) -> float:
        chance = self.chance.random()
        if may_be_late and not self.mended and chance < self.plan.late:
            return self.chance.uniform(0.02, LATE_MOST_S if chance < self.plan.late / 2 else 0.4)
        return 0.001 + 0.004 * chance

    def clogged_s(self) -> float:
        """How long a request stays in the sender's own buffer; 0: not at all."""
        if self.mended or self.chance.random() >= self.plan.clogs:
            return 0.0
        return self.chance.uniform(0.01, 3.0)

    def takes_less(self, topic: str) -> bool:
        """Whether it takes less than it did at first: not every lane has heard of that."""
        return self.sizes[topic] != self._first_sizes[topic]

    def refuses_marker(self) -> bool:
        share = self.plan.gaps.marks_refused
        return share > 0 and not self.mended and self.chance.random() < share

    def loses_message(self) -> bool:
        return self.loss > 0 and self.chance.random() < self.loss

    def throttle_ms(self) -> int:
        if not self.throttled or self.chance.random() >= 0.5:
            return 0
        return int(1000 * self.chance.uniform(*self.plan.conditions.throttles_s))

    # -- who is there

    def group(self, cluster: SimCluster, name: str, driver: int) -> SimGroup:
        key = (name, driver if self.plan.racing else 0)
        if key not in self._groups:
            self._groups[key] = SimGroup(cluster, name)
        return self._groups[key]

    @property
    def groups(self) -> list[SimGroup]:
        return list(self._groups.values())

    @property
    def lanes_ever(self) -> int:
        return sum(isinstance(process, SimLane) for process in self.processes)

    def rows_of(self, key: MirrorPartition) -> Iterator[tuple[bool, PartitionStatus]]:
        """The partition on each driver's board, and whether that driver holds the link."""
        for driver in self.drivers:
            run = driver.mirror
            row = run.board.rows.get(key) if run is not None else None
            if run is not None and row is not None:
                yield key.link in run._adopted and not driver.dead, row

    def wake_fetches(self, where: TopicPartition) -> None:
        """A source has changed: fetches that waited there are answered."""
        for fetch in list(self.fetches):
            if where in fetch.wheres:
                fetch.look()

    def start_driver_later(self, number: int) -> None:
        self.after(self.chance.uniform(1.0, 5.0), self._start_driver, number)

    def _start_driver(self, number: int) -> None:
        if self.drivers[number].dead:
            self.drivers[number] = SimDriver(self, number)

    def _expire_producers(self) -> None:
        """The periodic check, of one broker at a time."""
        self.after(QUIET_EXPIRY_S if self.mended else self.plan.expire_every_s, self._expire_producers)
        node = self.chance.randint(1, self.plan.brokers)
        for judge in self.judges:
            if judge.target.partition is not None and node in judge.target.partition.replicas:
                judge.target.partition.expire_producers(node)

    def _note_starts(self) -> None:
        """Where logs start is on disk now."""
        self.after(START_NOTED_S, self._note_starts)
        for judge in self.judges:
            for replica in judge.target.partition.replicas.values() if judge.target.partition else ():
                replica.note_start()

    def _clean(self) -> None:
        """The log cleaner of one broker, of all its partitions that are compacted."""
        self.after(CLEANED_S, self._clean)
        node = self.chance.randint(1, self.plan.brokers)
        for judge in self.judges if node not in self.clusters["nyc"].down else ():
            partition = judge.target.partition
            compacted = self.clusters["nyc"].topics[judge.key.target_topic].is_compacted
            if (
                compacted
                and partition is not None
                and node in partition.replicas
                and clean(partition.replicas[node])
            ):
                self.tell("broker", node, "cleans", judge.key)
                judge.cleaned()

    def settings_changed(self, topic: SimTopic) -> None:
        """Of a topic that is built."""
        if phase_of(topic.settings) is None:
            for judge in self.judges:
                if judge.key.target_topic == topic.name:
                    judge.built()

    def _mend(self) -> None:
        """Faults are over: everything that can come back is back."""
        self.tell("faults are over")
        self.mended = True
        self.loss = 0.0
        self.throttled = False
        for cluster in self.clusters.values():
            cluster.thaw_all()
            for node in list(cluster.down):
                self.faults.brokers.come_back(cluster, node)
        for judge in self.judges:
            judge.target.mend()
        for driver in self.drivers:
            driver.cut = False
            driver.loop.come_round()
            driver.resume()
            driver.thaw()
        for lane in list(self.lanes):
            lane.wire.reconnect()
            lane.resume()
            lane.thaw()
        self.operator.make_good()

    # -- the course of things

    def _ended(self) -> bool:
        """Nothing more is to come, and whatever was on its way is over."""
        settled = self.now > max(MEND_S, self.last_arrival) + SETTLED_S
        if not settled or self.operator.waits or not all(judge.done for judge in self.judges):
            return False
        if self.appends >= self.plan.fewest_appends:
            return True
        for judge in self.judges:
            judge.source.lengthen(LENGTHENED_BY)
        return False

    @property
    def appends(self) -> int:
        """That brokers have executed, of batches and of markers."""
        return sum(judge.target.appends + judge.target.markers for judge in self.judges)

    def run(self) -> str:
        """What is wrong, empty if nothing is."""
        try:
            with in_the_place_of_the_outside(self):
                self.drivers.extend(SimDriver(self, number) for number in range(self.plan.drivers))
                self._play()
        except Wrong as wrong:
            self.tell("WRONG:", wrong)
            return str(wrong)
        finally:
            for process in self.processes:
                process.loop.bury()
        return self._bug()

    def _bug(self) -> str:
        found = self._problem
        return f"a bug: {found.get('message')}: {found.get('exception')!r}" if found is not None else ""

    def _play(self) -> None:
        steps = 0
        while self.now < LIMIT_S:
            self.step()
            if self._problem is not None:
                raise Wrong(self._bug())
            steps += 1
            if steps % 64 == 0 and self._ended():
                break
        for judge in self.judges:
            judge.conclude()


def _with_policies(gaps: Gaps) -> tuple[Link, ...]:
    return tuple(
        replace(link, policy=replace(link.policy, isolation=isolation, on_loss=on_loss, start=start))
        for link, isolation, on_loss, start in zip(
            LINKS, gaps.isolations, gaps.on_loss, gaps.starts, strict=True
        )
    )


def run_plan(plan: Plan, trace: Trace | None = None) -> Verdict:
    world = World(plan, trace)
    wrong = world.run()
    return Verdict(
        plan,
        wrong,
        world.now,
        any(judge.excused for judge in world.judges),
        Met(
            len(world.judges),
            len({judge.key.link for judge in world.judges}),
            world.appends,
            world.faults.happened,
            sum(judge.merges for judge in world.judges),
            sum(judge.out_of_order for judge in world.judges),
        ),
    )


def run_seed(seed: int, trace: Trace | None = None) -> Verdict:
    return run_plan(plan_of(seed), trace)
