"""The source's cluster in a world: one partition that grows, and may be cut or begin anew with other records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .model_broker import ModelPartition
from .model_topic import ModelTopic
from .raw_batch import DAY_MS
from .replica import Stored
from .source_content import BATCHES, EPOCH_MS, content

if TYPE_CHECKING:
    from .world import World


class SimSource(ModelTopic):
    def __init__(self, world: World) -> None:
        super().__init__(lambda topic_id: ModelPartition(topic_id, now_ms=lambda: EPOCH_MS + world.now_ms))
        self._world = world
        self._next_batch = 0
        self._version = 0
        self._grow(world.plan.present_at_start)
        world.after(world.plan.grow_every_ms, self._keep_growing)

    @property
    def log(self) -> Sequence[Stored]:
        return self.partition.leader_replica.batches if self.partition is not None else ()

    @property
    def end(self) -> int:
        return self.partition.leader_replica.end if self.partition is not None else -1

    @property
    def complete(self) -> bool:
        return self._next_batch >= BATCHES

    def holding(self, offset: int) -> Stored | None:
        return None if self.partition is None else self.partition.leader_replica.holding(offset)

    def _grow(self, count: int) -> None:
        partition = self.partition
        if partition is None:
            return
        replica = partition.leader_replica
        more = content(self._world.plan.kind, self._version)[self._next_batch : self._next_batch + count]
        for header, data in more:
            replica.append(header, data, partition.truth.epoch)
        self._next_batch += len(more)
        replica.high_watermark = replica.end

    def _keep_growing(self) -> None:
        if not self.complete:
            self._grow(1)
            self._world.after(self._world.plan.grow_every_ms, self._keep_growing)
            self._world.wake_copiers()

    def move_leader(self) -> None:
        if self.partition is not None:
            self.partition.elect(self.partition.truth.leader)

    def cut(self, share: float) -> None:
        """An unclean election: the end of the log is gone, and something else is there, or grows there."""
        assert self.partition is not None
        replica = self.partition.leader_replica
        held = len(replica.batches)
        kept = int(share * held)
        end = replica.batches[kept].header.base_offset if kept < len(replica.batches) else replica.end
        self._world.judge.source_changed(end)
        replica.truncate(end, EPOCH_MS + self._world.now_ms, DAY_MS)
        replica.high_watermark = replica.end
        self.move_leader()
        self._begin_again(min(kept, BATCHES - 6))
        if self._world.plan.regrows_at_once:
            self._grow(held - kept + 1)  # the new leader had it already

    def create(self) -> None:
        super().create()
        self._begin_again(0)

    def _begin_again(self, next_batch: int) -> None:
        self._next_batch, self._version = next_batch, 1
        self._world.after(self._world.plan.grow_every_ms, self._keep_growing)
        self._world.wake_copiers()
