"""A world without drivers, in which a test itself asks, appends and marks: how the outside and the judge are tested.

Its first partition is the one that things are done to. Labels of markers are made here, by the rule of crossing epochs,
so that what a wrong copier would do can be done.
"""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from heliograph.cluster.properties import parse_properties
from heliograph.model.marker_label import MarkerLabel
from heliograph.model.partition import TopicPartition
from heliograph.model.producer_id import producer_id
from heliograph.wire.batch import read_header, rewrite
from tests.wire.batches import make_batch

from .answers import Answer, Deleting, Waiting
from .control_batch import TRANSACTIONAL, EndMarker
from .gap_plan import NO_GAPS, Gaps
from .model_broker import ModelPartition
from .outside import in_the_place_of_the_outside
from .plan import Content, Plan, Rhythm, plan_of
from .sim_client import SimClient
from .sim_source import SimSource
from .sim_target import SimTarget
from .source_content import BATCHES
from .source_transactions import NO_TRANSACTIONS
from .virtual_loop import Process
from .world import PROPERTIES, World

LOW_ATTRIBUTES_AT = 22
ATTEMPTS = 8
LIMIT_S = 200.0


def label(offset: int, attempt: int = 0, *, block_offsets: int = 1 << 16) -> MarkerLabel:
    """Of two attempts at one offset, the later has the higher producer epoch and the lower coordinator epoch."""
    block, nth = divmod(offset, block_offsets)
    return MarkerLabel((0x49 << 56) + block, attempt, nth * ATTEMPTS + ATTEMPTS - 1 - attempt)


def plan_by_hand(
    *,
    transactions: str = NO_TRANSACTIONS,
    log_start: int = 0,
    present: int = BATCHES,
    rhythm: Rhythm | None = None,
    seed: int = 0,
    gaps: Gaps = NO_GAPS,
    **others: Any,
) -> Plan:
    """Without a rhythm everything is there at first, or nothing comes before the test is over."""
    rhythm = rhythm or Rhythm(present=present, count=1, every_s=LIMIT_S)
    content = Content(kind="fresh", rhythm=rhythm, transactions=transactions, log_start=log_start)
    quiet: dict[str, Any] = {
        "drivers": 0,
        "brokers": 1,
        "min_insync": 1,
        "faults": (),
        "loud": "",
        "late": 0.0,
        "clogs": 0.0,
    }
    return replace(
        plan_of(seed),
        seed=seed,
        topics=((content,) * 3, (content,) * 2),
        topics_exist=True,
        gaps=gaps,
        **(quiet | others),
    )


class ByHand:
    def __init__(self, **how: Any) -> None:
        self.world = World(plan_by_hand(**how))
        self.judge = self.world.judges[0]
        self.source, self.log = self.judge.source, self.judge.target
        self.where = TopicPartition(self.judge.key.target_topic, 0)
        self.own_id = producer_id("sf-id", self.where.topic)
        self.sequence = 0

    @property
    def partition(self) -> ModelPartition:
        assert self.log.partition is not None
        return self.log.partition

    @property
    def node(self) -> int:
        return self.partition.truth.leader

    @property
    def end(self) -> int:
        return self.partition.leader_replica.end

    # -- at once, as a broker executes it

    def copy(self, offset: int, *, sequence: int | None = None) -> Answer | Waiting:
        """The source's batch there, as a copier sends it."""
        stored = self.source.holding(offset)
        assert stored is not None
        batch = bytearray(stored.data)
        batch[LOW_ATTRIBUTES_AT] &= ~TRANSACTIONAL
        return self._produce(batch, stored.header.records_count, sequence)

    def fill(self, count: int) -> Answer | Waiting:
        """Records that hold nothing."""
        batch = make_batch([(None, None, ())] * count, timestamp=self.world.wall_ms)
        return self._produce(batch, count, None)

    def _produce(self, batch: bytearray, count: int, sequence: int | None) -> Answer | Waiting:
        first = self.sequence if sequence is None else sequence
        view = memoryview(batch)
        rewrite(view, producer_id=self.own_id, producer_epoch=0, base_sequence=first)
        answer = self.log.produce(self.node, view)
        if isinstance(answer, Waiting):
            self.sequence = first + count
        self.log.executed(answer, self.partition.truth.epoch, read_header(view))
        return answer

    def mark(self, said: MarkerLabel) -> Answer | Waiting:
        answer = self.partition.write_marker(self.node, EndMarker(*said))
        if isinstance(answer, Waiting):
            self.log.marked(answer, self.partition.truth.epoch)
        return answer

    def delete(self, before_offset: int) -> None:
        answer = self.partition.delete_records(self.node, before_offset)
        assert isinstance(answer, Deleting)
        self.log.deleted(answer)

    # -- over the network

    def hand(self, name: str = "hand") -> tuple[Process, SimSource, SimTarget]:
        """A process of its own, with its ports."""
        process = Process(self.world, name, self.world.problem)
        properties = parse_properties(PROPERTIES)
        source = SimClient(process, self.world.clusters["sf"], properties)
        target = SimClient(process, self.world.clusters["nyc"], properties)
        for client in (source, target):
            client.follow([self.where.topic])
        return process, SimSource(source, "by hand"), SimTarget(target, "by hand")

    def play(self, *works: tuple[Process, Coroutine[Any, Any, Any]]) -> list[Any]:
        """Until all are done; what they return."""
        with in_the_place_of_the_outside(self.world):
            tasks = [process.loop.create_task(work) for process, work in works]
            while not all(task.done() for task in tasks):
                assert self.world.now < LIMIT_S, "it does not end"
                self.world.step()
        return [task.result() for task in tasks]

    def wait(self, seconds: float) -> None:
        until = self.world.now + seconds
        self.world.at(until, lambda: None)
        while self.world.now < until:
            self.world.step()
