"""A target partition in a world: elections and who hears of them, followers that fetch or lag, appends that wait.

Owns when things happen at the partition's replicas; what follows from them is the model's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from heliograph.wire.batch import BatchHeader

from .answers import Answer, Deleting, Waiting
from .model_broker import ModelPartition
from .model_topic import ModelTopic

if TYPE_CHECKING:
    from .judge import PartitionJudge
    from .sim_cluster import SimCluster

FOLLOWER_S = 0.02  # between a follower's fetches that bring nothing while something is due


class Awaiting(Protocol):
    """Who waits for followers."""

    def look(self) -> None: ...


class TargetLog(ModelTopic):
    def __init__(self, make: Callable[[str], ModelPartition], cluster: SimCluster) -> None:
        super().__init__(make)
        self.judge: PartitionJudge
        self.lagging: set[int] = set()  # followers that do not fetch
        self.appends = 0
        self.markers = 0
        self._waiters: dict[Awaiting, None] = {}
        self._cluster = cluster
        self._world = cluster.world
        self._replicating: set[int] = set()

    def create(self) -> None:
        self.lagging.clear()
        super().create()

    # -- leaders

    def elect(self, partition: ModelPartition, node: int) -> None:
        partition.elect(node)
        for other in partition.replicas:
            if other != node:
                self._world.after(self._world.chance.choice((0.001, 0.05, 1.5)), self._hear, partition, other)
        self._world.tell("broker", node, "leads", self.judge.key, "in epoch", partition.truth.epoch)
        self.changed()

    def _hear(self, partition: ModelPartition, node: int) -> None:
        partition.hear(node)
        self.changed()

    def come_back(self, node: int) -> None:
        partition = self.partition
        if partition is not None and node in partition.replicas:
            partition.come_back(node, forgets_start=self._world.plan.gaps.forgets_starts)
            if partition.truth.leader == node:
                self.elect(partition, node)
            self.changed()

    def mend(self) -> None:
        """All brokers are back and know who leads."""
        self.lagging.clear()
        partition = self.partition
        if partition is not None:
            for node in partition.replicas:
                partition.hear(node)
            self.elect(partition, partition.truth.leader)

    # -- appends

    def changed(self) -> None:
        """Something happened to the replicas."""
        for channel in list(self._waiters):
            channel.look()
        self.judge.look()
        self._replicate_soon()

    def executed(self, answer: Answer | Waiting, believed_epoch: int, header: BatchHeader) -> None:
        """An append of a lane that believed in this leader epoch."""
        if not isinstance(answer, Waiting):
            self.judge.refused(answer.error, header)
            return
        self.appends += 1
        self._tell_judge(answer, believed_epoch)
        self.appended()

    def marked(self, waiting: Waiting, believed_epoch: int) -> None:
        """A marker of a lane that believed in this leader epoch was appended."""
        self.markers += 1
        self._tell_judge(waiting, believed_epoch)
        self.appended()

    def _tell_judge(self, waiting: Waiting, believed_epoch: int) -> None:
        partition = self.partition
        assert partition is not None
        stored = partition.replicas[waiting.node].holding(waiting.base_offset)
        if stored is not None:
            self.judge.appended(
                partition, waiting.node, stored, unaware=believed_epoch < partition.unclean_epoch
            )

    def deleted(self, deleting: Deleting) -> None:
        """A lane has moved the log's start."""
        self.judge.deleted(deleting.offset)
        self.changed()

    def appended(self) -> None:
        self.judge.look()
        self._replicate_soon()

    def await_followers(self, channel: Awaiting) -> None:
        self._waiters[channel] = None

    def await_no_more(self, channel: Awaiting) -> None:
        self._waiters.pop(channel, None)

    # -- followers

    def catch_up(self, node: int) -> None:
        self.lagging.discard(node)
        self._replicate_soon()

    def _replicate_soon(self) -> None:
        partition = self.partition
        if partition is None or len(partition.replicas) == 1:
            return
        for node in partition.replicas:
            if node != partition.truth.leader and node not in self._replicating and not self._stands(node):
                self._replicating.add(node)
                self._world.after(self._world.delay_s(), self._replicate, partition, node)

    def _stands(self, node: int) -> bool:
        return node in self.lagging or node in self._cluster.down or self._cluster.is_frozen(node)

    def _replicate(self, partition: ModelPartition, node: int) -> None:
        self._replicating.discard(node)
        if partition is not self.partition or self._stands(node):
            return
        leader, replica = partition.leader_replica, partition.replicas[node]
        before = (replica.end, replica.high_watermark, leader.high_watermark)
        if not self._cluster.is_frozen(partition.truth.leader):
            partition.replicate(node)
        replica = partition.replicas[node]  # it may have begun anew
        if before != (replica.end, replica.high_watermark, leader.high_watermark):
            self.changed()
        elif (
            leader.high_watermark < leader.end
            or replica.end != leader.end
            or -1 < partition.start_seen_of(node) < leader.start
        ):
            self._replicating.add(node)
            self._world.after(FOLLOWER_S, self._replicate, partition, node)
