"""The target's cluster in a world: elections and who hears of them, followers that fetch or lag, answers that wait.

Owns when things happen at the brokers; what follows from them is the model's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .model_broker import Answer, Led, ModelPartition, Waiting
from .model_topic import ModelTopic
from .raw_batch import FOREVER_MS, HOUR_MS, TopicRules
from .source_content import BIG_AT, BIG_BYTES, EPOCH_MS
from .target_line import Line, Request

if TYPE_CHECKING:
    from .plan import Plan
    from .world import World

QUIET_EXPIRY_MS = 700


def target_maker(plan: Plan, world: World) -> Callable[[str], ModelPartition]:
    rules = TopicRules(
        min_insync=plan.min_insync,
        max_message_bytes=BIG_BYTES if plan.kind in BIG_AT else 1 << 20,
        timestamp_after_max_ms=HOUR_MS if plan.kind == "future" else FOREVER_MS,
    )
    brokers = tuple(range(1, plan.brokers + 1))
    return lambda topic_id: ModelPartition(
        topic_id, brokers=brokers, rules=rules, now_ms=lambda: EPOCH_MS + world.now_ms + world.broker_jump_ms
    )


class SimTarget(ModelTopic):
    def __init__(self, world: World) -> None:
        super().__init__(target_maker(world.plan, world))
        self.lagging: set[int] = set()  # followers that do not fetch
        self.waiters: list[tuple[Line, Request]] = []
        self._world = world
        self._replicating: set[int] = set()
        world.after(world.plan.expire_every_ms, self._expire)

    def create(self) -> None:
        self.lagging.clear()
        super().create()

    # -- leaders

    def elect(self, partition: ModelPartition, node: int) -> None:
        partition.elect(node)
        for other in partition.replicas:
            if other != node:
                self._world.after(self._world.chance.choice((1, 50, 1_500)), self._hear, partition, other)
        end = partition.leader_replica.end
        self._world.tell("broker", node, "leads epoch", partition.truth.epoch, "from", end)
        self.changed()

    def _hear(self, partition: ModelPartition, node: int) -> None:
        partition.hear(node)
        self.changed()

    def mend(self) -> None:
        """All brokers are back and know who leads."""
        self.lagging.clear()
        partition = self.partition
        if partition is None:
            return
        for node in list(partition.down):
            partition.come_back(node)
        for node in partition.replicas:
            partition.hear(node)
        self.elect(partition, partition.truth.leader)

    # -- appends

    def changed(self) -> None:
        """Something happened to the brokers."""
        self.settle_waiters()
        self._world.judge.look()
        self._replicate_soon()

    def executed(self, answer: Answer | Waiting, believed: Led, wanted_offset: int) -> None:
        """An append of a copier that believed in this leader, and meant the batch for this offset."""
        self._world.tell("  a broker says", answer)
        partition = self.partition
        if not isinstance(answer, Waiting) or partition is None:
            return
        if answer.base_offset != wanted_offset and believed.epoch < partition.unclean_epoch:
            self._world.judge.misplaced_unawares(partition, answer.base_offset)
        self._world.judge.appended(partition, answer.base_offset)
        self.appended()

    def appended(self) -> None:
        self._world.judge.look()
        self._replicate_soon()

    def settle_waiters(self) -> None:
        for waiter in list(self.waiters):
            line, request = waiter
            if waiter in self.waiters and line.can_answer(request):
                self.waiters.remove(waiter)
                line.answer(request)

    # -- followers

    def catch_up(self, node: int) -> None:
        self.lagging.discard(node)
        self._replicate_soon()

    def _replicate_soon(self) -> None:
        partition = self.partition
        if partition is None or len(partition.replicas) == 1:
            return
        for node in partition.replicas:
            if (
                node != partition.truth.leader
                and node not in self._replicating | self.lagging | partition.down
            ):
                self._replicating.add(node)
                self._world.after(self._world.delay_ms(), self._replicate, partition, node)

    def _replicate(self, partition: ModelPartition, node: int) -> None:
        self._replicating.discard(node)
        if partition is not self.partition or node in self.lagging or node in partition.down:
            return
        leader, replica = partition.leader_replica, partition.replicas[node]
        before = (replica.end, replica.high_watermark, leader.high_watermark)
        partition.replicate(node)
        if before != (replica.end, replica.high_watermark, leader.high_watermark):
            self.changed()
        elif leader.high_watermark < leader.end or replica.end != leader.end:
            self._replicating.add(node)
            self._world.after(40, self._replicate, partition, node)

    def _expire(self) -> None:
        world = self._world
        world.after(QUIET_EXPIRY_MS if world.mended else world.plan.expire_every_ms, self._expire)
        if self.partition is not None:
            self.partition.expire_producers(world.chance.choice(list(self.partition.replicas)))
