"""What the times of live records amount to: latencies, and pauses. Pure; times are of one clock, in nanoseconds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from itertools import pairwise
from typing import NamedTuple

Where = tuple[str, int]


class Arrival(NamedTuple):
    """A record sent to the source, and seen on the target."""

    topic: str
    partition: int
    sent_ns: int
    arrived_ns: int

    @property
    def latency_ms(self) -> float:
        return (self.arrived_ns - self.sent_ns) / 1e6


def latencies_ms(arrivals: Iterable[Arrival], *, from_ns: int, to_ns: int) -> list[float]:
    """Of the records that had arrived before `to_ns`, sent from `from_ns` on. What was on its way at the time of a
    kill belongs to the pause."""
    return [each.latency_ms for each in arrivals if from_ns <= each.sent_ns and each.arrived_ns < to_ns]


def longest_pause_s(arrivals: Iterable[Arrival], wheres: Collection[Where], *, since_ns: int) -> float:
    """The longest time without an arrival on any one of these partitions that was over after `since_ns`."""
    by_partition: dict[Where, list[int]] = defaultdict(list)
    for each in arrivals:
        if (each.topic, each.partition) in wheres:
            by_partition[each.topic, each.partition].append(each.arrived_ns)
    gaps = (
        after - before
        for times in by_partition.values()
        for before, after in pairwise(sorted(times))
        if after > since_ns
    )
    return max(gaps, default=0) / 1e9


class Laps:
    """Where the time went: every second belongs to exactly one lap."""

    def __init__(self, now: float) -> None:
        self._at = now
        self.seconds: dict[str, float] = {}

    def over(self, name: str, now: float) -> None:
        """What has been done since the last lap was over is called so."""
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._at
        self._at = now

    @property
    def total_s(self) -> float:
        return sum(self.seconds.values())
