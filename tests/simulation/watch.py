"""The second judge: what is promised of the copiers themselves, not of the logs. Looks once a second.

P7        a partition whose brokers are well goes on, whatever holds others up; no lane is ended that does its work
memory    a lane never holds more than its budget and one answer that is larger than asked for; what it merges counts
calm      what needs no resynchronisation gets none
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from heliograph.copier.batches import SourceBatch
from heliograph.copier.budget import ByteBudget
from heliograph.model.partition import MirrorPartition

from .judge import PartitionJudge, Wrong
from .plan import OLD_KINDS
from .sim_lane import SimLane
from .source_content import BIG_BYTES

if TYPE_CHECKING:
    from .sim_driver import SimDriver
    from .world import World

LOOK_S = 1.0
AWAY_S = 20.0  # so long ago a process was frozen or cut off, and what others know of it may be as old
# An answer holds at least one whole batch, in a buffer of a power of two, however little was asked for.
OVERSIZED_BYTES = 4 * BIG_BYTES


class Watch:
    def __init__(self, world: World) -> None:
        self._world = world
        self._bounds = world.plan.bounds
        self._stood: dict[MirrorPartition, tuple[int, float]] = {}  # where, and since when
        self._away_at: dict[SimLane | SimDriver, float] = {}
        self._broker_away_at = -math.inf
        self.longest_s = 0.0
        self.most_bytes = 0
        self._wrong = ""
        world.after(LOOK_S, self._look)

    def _look(self) -> None:
        self._world.after(LOOK_S, self._look)
        if self._wrong:
            raise Wrong(self._wrong)
        self._note_absent()
        for lane in self._world.lanes:
            self._weigh(lane)
        if self._bounds.stands_s < math.inf:
            for judge in self._world.judges:
                self._time(judge)
        if self._bounds.interruptions < math.inf:
            self._count_interruptions()

    # -- P7

    def _time(self, judge: PartitionJudge) -> None:
        target, source, now = judge.target.partition, judge.source.partition, self._world.now
        if judge.kind in OLD_KINDS or target is None or source is None or now < self._bounds.from_s:
            return
        at = target.leader_replica.high_watermark
        was_at, since = self._stood.get(judge.key, (-1, now))
        waits = at < judge.source.readable_end and judge.brokers_are_well
        if at != was_at or not waits:
            since = now
        self._stood[judge.key] = (at, since)
        self.longest_s = max(self.longest_s, now - since)
        if now - since > self._bounds.stands_s:
            raise Wrong(
                f"P7: {judge.key}: nothing was copied for {now - since:.0f} s, though its brokers are well"
            )

    def abandoned(self, driver: SimDriver, number: int) -> None:
        """A driver ends a lane that does not advance, as it believes."""
        lane = driver.jobs.lane(number)
        if lane is not None and not self._was_away(lane, driver):
            self._wrong = (
                self._wrong or f"P7: {driver.name} ends {lane.name} as hung, though it does its work"
            )

    def _note_absent(self) -> None:
        if any(cluster.absent for cluster in self._world.clusters.values()):
            self._broker_away_at = self._world.now
        for process in self._world.processes:
            cut = isinstance(process, SimLane) and process.wire.cut
            if process.frozen or process.loop.busy or cut:
                self._away_at[process] = self._world.now

    def _was_away(self, *processes: SimLane | SimDriver) -> bool:
        """Or a broker: who waits for one is not told from a lane that hangs where others of the link just left it."""
        self._note_absent()
        if self._world.now - self._broker_away_at < AWAY_S:
            return True
        return any(self._world.now - self._away_at.get(each, -math.inf) < AWAY_S for each in processes)

    # -- memory

    def _weigh(self, lane: SimLane) -> None:
        if lane.lane is None:
            return
        buffers: dict[int, int] = {}
        merged_bytes, budget = 0, lane.lane._budget
        for copy in lane.lane.copies.values():
            merged_bytes += sum(len(each.batch) for each in copy._in_flight if each.batches > 1)
            for batch in (
                *(each.run.view for each in copy._waiting if isinstance(each, SourceBatch)),
                *(each.batch for each in copy._in_flight),
            ):
                buffers[id(batch.obj)] = memoryview(batch.obj).nbytes
        held_bytes = sum(buffers.values())
        self.most_bytes = max(self.most_bytes, held_bytes)
        limit_bytes = self._world.plan.conditions.lane_memory_bytes + OVERSIZED_BYTES
        if max(held_bytes, _counted(budget)) > limit_bytes:
            raise Wrong(
                f"memory: {lane.name} holds {held_bytes} bytes, counts {budget.used_bytes}, and may hold"
                f" {limit_bytes}"
            )
        if not merged_bytes <= budget.merged_bytes <= budget.merged_limit_bytes:
            raise Wrong(
                f"memory: {lane.name} has merged batches of {merged_bytes} bytes on their way, counts"
                f" {budget.merged_bytes}, and may have {budget.merged_limit_bytes}"
            )

    # -- calm

    def _count_interruptions(self) -> None:
        for lane in self._world.lanes:
            for key, copy in lane.lane.copies.items() if lane.lane is not None else ():
                if copy.interruptions > self._bounds.interruptions:
                    raise Wrong(
                        f"calm: {key}: asked the target again {copy.interruptions} times: {copy.trouble}"
                    )


def _counted(budget: ByteBudget) -> int:
    return budget.used_bytes + budget.merged_bytes
