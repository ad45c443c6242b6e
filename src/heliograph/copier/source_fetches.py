"""Who reads from one source broker: what had records lately by one fetcher, all that is calm by another.

    calm ──(records)──▶ busy ──(none for a while)──▶ calm

For each request a broker looks at every partition of its session, whether or not anything is new there, and makes
garbage: with hundreds of calm ones in the session of two busy ones its collector pauses all the time
(docs/decisions/0009). Knows neither sessions nor memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from heliograph.copier.fetcher import Fetcher
from heliograph.copier.partition_copy import PartitionCopy

CALM_AFTER_S = 10.0  # without records, and twice that at most: to move costs a request more

OnRecords = Callable[[PartitionCopy], None]


class SourceFetches:
    """`make(line, on_records)` makes a fetcher that has a line of its own to the broker. `run` is to be run for ever,
    and so are the fetchers."""

    def __init__(self, make: Callable[[str, OnRecords], Fetcher]) -> None:
        self.busy = make("busy", self._had_records)
        self.calm = make("calm", self._had_records)
        self._fetchers: dict[PartitionCopy, tuple[Fetcher, int]] = {}  # with the epoch of its leader
        self._fed: dict[PartitionCopy, None] = {}  # since the last look

    def add(self, copy: PartitionCopy, leader_epoch: int) -> None:
        self._put(copy, self.calm, leader_epoch)

    def _put(self, copy: PartitionCopy, fetcher: Fetcher, leader_epoch: int) -> None:
        self._fetchers[copy] = (fetcher, leader_epoch)
        fetcher.add(copy, leader_epoch)

    def discard(self, copy: PartitionCopy) -> None:
        self._fed.pop(copy, None)
        if copy in self._fetchers:
            fetcher, _ = self._fetchers.pop(copy)
            fetcher.discard(copy)

    def changed(self, copy: PartitionCopy) -> None:
        """This copy may want records now, or others than before, or none."""
        if copy in self._fetchers:
            fetcher, _ = self._fetchers[copy]
            fetcher.changed(copy)

    @property
    def under_way(self) -> int:
        """How many requests are under way, or may be at any moment."""
        return self.busy.under_way + self.calm.under_way

    def _had_records(self, copy: PartitionCopy) -> None:
        if copy in self._fetchers:
            self._fed[copy] = None
            self._move(copy, self.busy)

    def _move(self, copy: PartitionCopy, to: Fetcher) -> None:
        fetcher, leader_epoch = self._fetchers[copy]
        if fetcher is not to:
            fetcher.discard(copy)
            self._put(copy, to, leader_epoch)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(CALM_AFTER_S)
            self.look()

    def look(self) -> None:
        """Whoever had no records since the last look is calm."""
        for copy in self.busy.copies:
            if copy not in self._fed:
                self._move(copy, self.calm)
        self._fed.clear()
