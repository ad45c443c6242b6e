"""The one judge: P1 to P4 of the target's log, at every step and at the end; and that the copy ends or says why not.

P1, P2, P4  up to the high watermark every target batch is the source's at the same offsets, and none is missing
P3, P6      where the logs were changed from outside, the copy is stopped, with a reason that the fault explains, and
            nobody went on behind it
liveness    when the faults are over, all is copied, or all copiers have stopped as above
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from heliograph.copier.phases import Phase
from heliograph.model.states import StopReason
from heliograph.wire.batch import payload_equal

from .copier import IN_FLIGHT
from .model_broker import ModelPartition
from .replica import Stored

if TYPE_CHECKING:
    from .world import World

_CHANGED = {StopReason.ANCHOR, StopReason.TARGET_AHEAD, StopReason.SEQUENCE, StopReason.FOREIGN}
EXPLAINED: dict[str, set[StopReason]] = {
    "foreign writer": {*_CHANGED, StopReason.WRONG_PLACE},
    "target recreated": {*_CHANGED, StopReason.RECREATED, StopReason.WRONG_PLACE},
    "source truncated": {*_CHANGED, StopReason.DIVERGED, StopReason.HOLES},
    "source recreated": {*_CHANGED, StopReason.DIVERGED, StopReason.RECREATED, StopReason.HOLES},
    "big": {StopReason.TOO_LARGE},
    "big and old": {StopReason.TOO_LARGE},
    "future": {StopReason.TIMESTAMP},
}


class Wrong(Exception):
    """A promise is broken."""


class Judge:
    def __init__(self, world: World) -> None:
        self._world = world
        self._seen: tuple[str, int, int] = ("", -1, -1)
        self._judged_batches = 0
        self._foreign: tuple[ModelPartition, int] | None = None
        self._behind_foreign = 0
        self._misplaced: tuple[ModelPartition, int] | None = None
        self.excused = False
        self._source_changed_at: int | None = None
        self._former: dict[int, Stored] = {}  # what the source held before it was changed
        self._target_recreated = False

    # -- what the faults tell

    def foreign_written(self, partition: ModelPartition, end: int) -> None:
        self._foreign = (partition, end)

    def _foreign_end(self, partition: ModelPartition) -> int | None:
        """Where the foreign record ends, while the leader's log holds it: an unclean election may take it away."""
        if self._foreign is None or self._foreign[0] is not partition:
            return None
        stored = partition.leader_replica.holding(self._foreign[1] - 1)
        return self._foreign[1] if stored is not None and stored.header.producer_id < 0 else None

    def misplaced_unawares(self, partition: ModelPartition, offset: int) -> None:
        """No guard can exist here: an unclean election took away records and what the broker remembered of us, and the
        same broker leads again before the copier hears of it. What it sends is taken for the first ever."""
        self.excused = True
        self._misplaced = (partition, min(offset, self._misplaced[1]) if self._misplaced else offset)

    def target_recreated(self) -> None:
        self._target_recreated = True

    def source_changed(self, at: int) -> None:
        """From this offset on the source holds, or will hold, something else."""
        self._source_changed_at = at
        self._former = {stored.header.base_offset: stored for stored in self._world.source.log}

    @property
    def loud(self) -> bool:
        """A fault has happened after which the copier need only be loud."""
        changed = self._target_recreated or self._source_changed_at is not None
        return bool(self._foreign or self._misplaced or changed)

    # -- at every step

    def look(self) -> None:
        partition = self._world.target.partition
        if partition is None:
            return
        replica = partition.leader_replica
        seen = (partition.topic_id, partition.truth.epoch, replica.high_watermark)
        if seen == self._seen:
            return
        if seen[:2] != self._seen[:2]:
            self._judged_batches = 0
        self._seen = seen
        for stored in replica.batches[self._judged_batches :]:
            if stored.header.next_offset > replica.high_watermark:
                break
            self._judged_batches += 1
            self._judge(partition, stored)

    def _judge(self, partition: ModelPartition, stored: Stored) -> None:
        offset = stored.header.base_offset
        foreign_end = self._foreign_end(partition)
        if self._misplaced is not None and self._misplaced[0] is partition and offset >= self._misplaced[1]:
            return
        if foreign_end is not None and stored.header.next_offset >= foreign_end:
            return
        if self._target_recreated and not self._world.plan.produces_by_id:
            return
        expected = self._world.source.holding(offset)
        if expected is not None and _same(stored, expected):
            return
        changed_at = self._source_changed_at
        if changed_at is not None and offset >= changed_at and _same(stored, self._former.get(offset)):
            return
        raise Wrong(
            f"P2: the target's batch at offset {offset} is not the source's (high watermark {self._seen[2]})"
        )

    def appended(self, partition: ModelPartition, offset: int) -> None:
        """A copier's batch is in a log."""
        foreign_end = self._foreign_end(partition)
        if foreign_end is None or offset < foreign_end:
            return
        self._behind_foreign += 1
        limit = IN_FLIGHT * len(self._world.lanes_ever)
        if self._behind_foreign > limit:
            raise Wrong(f"P6: more than {limit} batches were appended behind a foreign record")

    # -- at the end

    def done(self) -> bool:
        """Nothing more is to come."""
        return self._identical() or self._all_stopped()

    def conclude(self) -> None:
        self._explain_stops()
        if self._identical() or (self._all_stopped() and self._may_stop()):
            return
        if self.loud:
            raise Wrong(f"P6: {self._world.plan.loud}: neither stopped nor identical: {self._standing()}")
        raise Wrong(f"liveness: the copy does not end: {self._standing()}")

    def _may_stop(self) -> bool:
        return self.loud or self._world.plan.kind in EXPLAINED

    def _explain_stops(self) -> None:
        explained = EXPLAINED.get(self._world.plan.kind, set())
        if self.loud:
            explained = explained | EXPLAINED[self._world.plan.loud or "foreign writer"]
        for stop in self._world.stops:
            if stop.reason not in explained:
                raise Wrong(f"stopped without cause: {stop.reason}: {stop.message}")

    def _identical(self) -> bool:
        partition, source = self._world.target.partition, self._world.source.partition
        if partition is None or source is None:
            return False
        replica, log = partition.leader_replica, self._world.source.log
        same_length = len(log) == len(replica.batches) and replica.high_watermark == source.leader_replica.end
        return same_length and all(_same(a, b) for a, b in zip(replica.batches, log, strict=True))

    def _all_stopped(self) -> bool:
        """Those that are still there; a lane that ends takes its stopped copier with it. In a race one is enough: there
        each has a driver of its own, and nobody tells the others."""
        if self._world.plan.racing and self.loud:
            return bool(self._world.stops)
        copiers = [lane.copier for lane in self._world.lanes if lane.copier is not None]
        return bool(self._world.stops) and all(copier.copy.phase is Phase.STOPPED for copier in copiers)

    def _standing(self) -> str:
        partition = self._world.target.partition
        ends = "no target" if partition is None else f"target at {partition.leader_replica.high_watermark}"
        phases = [
            f"{lane.name} {lane.copier.copy.phase.name} at {lane.copier.copy.next_offset}"
            for lane in self._world.lanes
            if lane.copier is not None
        ]
        return f"{ends} of {self._world.source.end}; {', '.join(phases) or 'no copier'}"


def _same(stored: Stored, expected: Stored | None) -> bool:
    return (
        expected is not None
        and stored.header.base_offset == expected.header.base_offset
        and payload_equal(memoryview(stored.data), memoryview(expected.data))
    )
