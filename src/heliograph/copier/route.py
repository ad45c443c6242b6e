"""Where a copy's records come from and go to now, and how its resynchronisations go."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from heliograph.cluster.metadata import Leader
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.ports import SourcePort, TargetPort


@dataclass(slots=True)
class Route:
    copy: PartitionCopy
    source: SourcePort
    target: TargetPort
    source_leader: Leader | None = None
    target_leader: Leader | None = None
    resync: asyncio.Task[None] | None = None
    moved: asyncio.Event = field(
        default_factory=asyncio.Event
    )  # a leader is new: no reason to wait any longer
    resynced_offset: int = -1  # where the copy was at the last resynchronisation,
    resynced_at: float = float("-inf")  # and when that was
    fruitless: int = 0  # how many followed each other with nothing copied in between
    missing_since: float | None = None  # since when a cluster says that the topic does not exist
