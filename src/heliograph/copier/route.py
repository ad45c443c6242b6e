"""Where a copy's records come from and go to now, and how its resynchronisations go. What the copy itself knows is its
own (partition_copy.py)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from heliograph.cluster.line_name import LineName
from heliograph.cluster.metadata import Leader
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.ports import SourcePort, TargetPort
from heliograph.copier.resync import Synced
from heliograph.copier.source_fetches import SourceFetches


@dataclass(slots=True)
class Route:
    copy: PartitionCopy
    source: SourcePort
    target: TargetPort
    source_leader: Leader | None = None
    target_leader: Leader | None = None
    fetches: SourceFetches | None = None  # from the source's leader
    resync: asyncio.Task[None] | None = None
    asking: asyncio.Task[Synced] | None = None  # the questions of `resync`, dropped when a leader moves
    moved: asyncio.Event = field(
        default_factory=asyncio.Event
    )  # a leader is new: no reason to wait any longer
    resynced_offset: int = -1  # where the copy was at the last resynchronisation,
    resynced_at: float = float("-inf")  # and when that was
    doubted: bool = False  # what the target said of our sequence made no sense, and is asked once more
    slow_until: float = float("-inf")  # its followers are slow: until then it appends on a line apart
    line: LineName | None = None
    clearing: asyncio.TimerHandle | None = None  # while a batch waits until older appends are over
    telling: asyncio.TimerHandle | None = None  # while one waits for a lease
    fruitless: int = 0  # how many followed each other with nothing copied in between
    missing: str = ""  # which topic does not exist, in words,
    missing_since: float | None = None  # since when a cluster says that the topic does not exist

    def leader_moved(self) -> None:
        """No reason to wait any longer, for a pause or for an answer: the new leader is asked."""
        self.moved.set()
        if self.asking is not None:
            self.asking.cancel()
