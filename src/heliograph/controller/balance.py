"""Which partition goes to which lane: a pure rule. How they move later is placement.py's."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from heliograph.controller.plan import CopyPartition


def balance(copies: Sequence[CopyPartition], held: Sequence[int]) -> list[list[CopyPartition]]:
    """The largest backlogs first, each to the lane with the least so far; then the caught-up ones, evenly by count.
    `held`: how many partitions each lane has already, of whichever link."""
    assigned: list[list[CopyPartition]] = [[] for _ in held]
    by_size = sorted(copies, key=lambda c: (-c.backlog, c.spec.partition))
    load = [(0, count, lane) for lane, count in enumerate(held)]
    heapq.heapify(load)
    for copy in (c for c in by_size if c.backlog):
        backlog, count, lane = heapq.heappop(load)
        assigned[lane].append(copy)
        heapq.heappush(load, (backlog + copy.backlog, count + 1, lane))
    for copy in (c for c in by_size if not c.backlog):
        lane = min(range(len(held)), key=lambda lane: held[lane] + len(assigned[lane]))
        assigned[lane].append(copy)
    return assigned


def lane_count(wanted: int | None, *, slots: int, partitions: int) -> int:
    """`wanted` None is auto: as many as Spark has slots for less one, but no lane without a partition."""
    return max(1, min(wanted or slots - 1, max(partitions, 1)))


def cap_lanes(wanted: int, local_slots: int | None) -> int:
    """A local master never gets more slots than it has, one of which is not for lanes."""
    return wanted if local_slots is None else max(1, min(wanted, local_slots - 1))
