"""A source partition in a world: it grows, its leader moves, and it may be cut or begin anew with other records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .model_broker import ModelPartition
from .model_topic import ModelTopic
from .plan import Content
from .raw_batch import DAY_MS
from .replica import Stored
from .source_content import HOLE_BEFORE, made

if TYPE_CHECKING:
    from .sim_cluster import SimCluster


class SourceLog(ModelTopic):
    """`on_change()`: something is there to be fetched. `on_cut(offset)`: from there on the source is another one."""

    def __init__(self, make: Callable[[str], ModelPartition], cluster: SimCluster, content: Content) -> None:
        super().__init__(make)
        self.on_change: Callable[[], None] = lambda: None
        self.on_cut: Callable[[int], None] = lambda _: None
        self._world = cluster.world
        self._content = content
        self._batches = content.batches
        self._next_batch = 0
        self._version = 0
        self._grow(content.rhythm.present)
        self._world.after(content.rhythm.every_s, self._keep_growing)

    @property
    def log(self) -> Sequence[Stored]:
        return self.partition.leader_replica.batches if self.partition is not None else ()

    @property
    def end(self) -> int:
        return self.partition.leader_replica.end if self.partition is not None else -1

    @property
    def complete(self) -> bool:
        return self._next_batch >= self._batches

    def holding(self, offset: int) -> Stored | None:
        return None if self.partition is None else self.partition.leader_replica.holding(offset)

    def _grow(self, count: int) -> None:
        partition = self.partition
        if partition is None:
            return
        end = min(self._next_batch + count, self._batches)
        kind, codecs = self._content.kind, self._content.codecs
        hole_at, hole = HOLE_BEFORE.get(kind, (-1, 0))
        for at in range(self._next_batch, end):
            header, data = made(kind, at, self._version, codecs)
            epoch = partition.truth.epoch
            partition.leader_replica.append(header, data, epoch, hole=hole if at == hole_at else 0)
        self._next_batch = end
        self._replicate(partition)

    def lengthen(self, count: int) -> None:
        """It grows by so much more than was planned, at once."""
        self._batches += count
        self._grow(count)
        self.on_change()

    def _replicate(self, partition: ModelPartition) -> None:
        """At once: how followers lag is the target's story."""
        for _ in range(2):
            for node in partition.replicas:
                partition.replicate(node)
        partition.leader_replica.high_watermark = partition.leader_replica.end

    def _keep_growing(self) -> None:
        if not self.complete:
            self._grow(self._content.rhythm.count)
            self._world.after(self._content.rhythm.every_s, self._keep_growing)
            self.on_change()

    def move_leader(self, node: int) -> None:
        partition = self.partition
        if partition is not None and node in partition.replicas and node not in partition.down:
            partition.elect(node)
            for each in partition.replicas:
                partition.hear(each)
            self._replicate(partition)
            self.on_change()

    def cut(self, share: float, *, regrows: bool) -> None:
        """An unclean election: the end of the log is gone, and something else is there, or grows there."""
        if self.partition is None:
            return
        held = list(self.log)
        kept = int(share * len(held))
        end = held[kept - 1].header.next_offset if kept else 0
        self.on_cut(end)
        for replica in self.partition.replicas.values():
            replica.truncate(end, self._world.wall_ms, DAY_MS)
            replica.high_watermark = replica.end
        self.partition.elect(self.partition.truth.leader)
        for node in self.partition.replicas:
            self.partition.hear(node)
        self._begin_again(min(kept, self._batches - 6))
        if regrows:
            self._grow(len(held) - kept + 1)  # the new leader had it already
        self.on_change()

    def create(self) -> None:
        super().create()
        self._begin_again(0)
        self.on_change()

    def _begin_again(self, next_batch: int) -> None:
        self._next_batch, self._version = next_batch, 1
        self._world.after(self._content.rhythm.every_s, self._keep_growing)
