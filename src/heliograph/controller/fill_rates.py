"""How fast gaps are filled, for each link, from the lanes' reports; and when that is to be written down. No I/O; `now`
is an argument.

A lane counts the offsets that it has filled of a partition, and the seconds in which it filled gaps of the link: those
in which it filled several at a time count once. So the sums give the rate of a lane, at the gaps that the link has:
many short ones take longer than one that is as long as all of them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from heliograph.controller.link_ledger import LinkLedger
from heliograph.controller.plan import Plan
from heliograph.model.fill_way import FillWay
from heliograph.model.ledger import Row
from heliograph.model.partition import MirrorPartition
from heliograph.model.partition_status import PartitionStatus

WRITTEN_EVERY_S = 60.0
OFFSETS_LEAST = 200  # fewer say more of the first request than of the rate


class _Filled(NamedTuple):
    offsets: int = 0
    seconds: float = 0.0


_NOTHING = _Filled()


class FillRates:
    def __init__(self) -> None:
        self._seen: dict[MirrorPartition, _Filled] = {}  # as its lane told last
        self._sums: defaultdict[str, _Filled] = defaultdict(_Filled)  # by link
        self._written: dict[str, _Filled] = {}
        self._written_at = -math.inf

    def report(self, progress: PartitionStatus) -> None:
        told = _Filled(progress.filled, progress.filling_s)
        seen = self._seen.get(progress.partition, _NOTHING)
        if told == seen:
            return  # nearly always
        seen = seen if told.offsets >= seen.offsets else _NOTHING  # a lane that has begun anew
        self._seen[progress.partition] = told
        link = progress.partition.link
        offsets, seconds = self._sums[link]
        self._sums[link] = _Filled(
            offsets + told.offsets - seen.offsets, seconds + told.seconds - seen.seconds
        )

    def rate(self, link: str) -> float | None:
        """Offsets a second; None: too few were filled."""
        offsets, seconds = self._sums[link]
        return offsets / seconds if offsets >= OFFSETS_LEAST and seconds > 0 else None

    def due(self, now: float, *, over: bool = False) -> Iterator[tuple[str, float]]:
        """Links whose rate is to be written down, and the rate: once a minute, and when the run is `over`."""
        if not over and now < self._written_at + WRITTEN_EVERY_S:
            return
        for link, filled in list(self._sums.items()):
            rate = self.rate(link)
            if rate is not None and filled != self._written.get(link):
                self._written[link] = filled
                self._written_at = now
                yield link, rate


def way_of(todo: Plan | None) -> FillWay | None:
    """How gaps of a link are filled, by its plan; None: in no way, or nothing is copied."""
    ways = (copy.spec.fill_way for copy in todo.copies) if todo else ()
    return next((way for way in ways if way is not FillWay.NONE), None)


def rows_of_rate(ledger: LinkLedger, way: FillWay, offsets_per_s: float) -> list[Row]:
    return [ledger.of_rate(way, offsets_per_s)]
