"""Which lanes hang. No I/O; `now` is an argument.

Health means that offsets advance, not that a process lives: a lane that has something to send, waits for no broker and
has not advanced for 10 s hangs. Who may not send yet does not: it waits behind others at a slow broker, or for appends
of the last holder or its lease, which it tells as trouble. Must not know what is done about a lane that hangs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from heliograph.model.partition import MirrorPartition
from heliograph.model.partition_status import PartitionStatus
from heliograph.model.states import BoundBy, PartitionState

ADVANCE_LIMIT_S = 10.0
# Between two looks of a driver that was frozen itself: what lanes did meanwhile is not read yet.
SLEPT_S = 5.0


@dataclass(slots=True)
class _StandStill:
    """Since when a partition stands where it is on its lane, and since when it waits for the same."""

    lane: int
    offset: int | None
    since: float
    waits: tuple[str | None, bool]  # for what, and whether it is in trouble
    waits_since: float


class LaneHealth:
    def __init__(self, now: float) -> None:
        self._still: dict[MirrorPartition, _StandStill] = {}
        self._looked_at = now

    def lane_gone(self, lane: int) -> None:
        """Whoever comes in its place begins anew, also if it comes before the next look."""
        self._still = {key: still for key, still in self._still.items() if still.lane != lane}

    def forget(self, partitions: Iterable[MirrorPartition]) -> None:
        for key in partitions:
            self._still.pop(key, None)

    def hanging(self, rows: Iterable[PartitionStatus], now: float) -> set[int]:
        """The lanes that do not advance. To be asked every second, with all rows of the board."""
        if now - self._looked_at >= SLEPT_S:
            self._still.clear()
        self._looked_at = now
        held_up, behind_broker = set(), set()  # lane and link
        for row in rows:
            if row.lane is None or _is_idle(row):
                self._still.pop(row.partition, None)
                continue
            still = self._note(row, row.lane, now)
            if row.bound_by == BoundBy.LANE and row.trouble is None:
                if now - still.waits_since >= ADVANCE_LIMIT_S:
                    held_up.add((row.lane, row.partition.link))
            elif now - still.since >= ADVANCE_LIMIT_S / 2:  # whatever it met meanwhile, its answers are due
                behind_broker.add((row.lane, row.partition.link))
        return {lane for lane, _ in held_up - behind_broker}

    def _note(self, row: PartitionStatus, lane: int, now: float) -> _StandStill:
        waits = (row.bound_by, row.trouble is not None)
        still = self._still.get(row.partition)
        if still is None or (still.lane, still.offset) != (lane, row.next_offset):
            still = self._still[row.partition] = _StandStill(lane, row.next_offset, now, waits, now)
        elif still.waits != waits:
            still.waits, still.waits_since = waits, now
        return still


def _is_idle(row: PartitionStatus) -> bool:
    """It has nothing to send."""
    done = row.state in (PartitionState.STOPPED, PartitionState.CAUGHT_UP)
    return done or row.bound_by == BoundBy.SOURCE
