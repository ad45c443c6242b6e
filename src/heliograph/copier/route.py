"""Where a copy's records come from and go to now, and how its resynchronisations go."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from uuid import UUID

from heliograph.cluster.line_name import LineName
from heliograph.cluster.metadata import Leader
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.ports import SourcePort, TargetPort
from heliograph.model.errors import PartitionStop
from heliograph.model.states import StopReason


@dataclass(slots=True)
class Route:
    """`recreated` tells of a topic that is not the one this copy began with."""

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
    doubted: bool = False  # what the target said of our sequence made no sense, and is asked once more
    slow_until: float = float("-inf")  # its followers are slow: until then it appends on a line apart
    line: LineName | None = None
    clear_at: float = float("-inf")  # when older appends of the partition are over
    losses: int = 0  # how many of the copy's lost appends that takes into account
    clearing: asyncio.TimerHandle | None = None  # while a batch waits for that
    idle_offset: int = -1  # where the copy was when idle copies were last looked at
    held_since: float | None = None  # since when an open transaction has held the source's end back,
    held_at: int = -1  # and where
    fruitless: int = 0  # how many followed each other with nothing copied in between
    topic_ids: dict[str, str] = field(default_factory=dict)  # source's and target's, as they were first seen
    missing_since: float | None = None  # since when a cluster says that the topic does not exist

    @property
    def target_topic_id(self) -> bytes:
        """The target topic that this copy began with, so that no append goes to another of its name."""
        known = self.topic_ids.get("target")
        return UUID(known).bytes if known else b""

    def recreated(self) -> PartitionStop | None:
        partition = self.copy.spec.partition
        for side, port, topic in (
            ("source", self.source, partition.source_topic),
            ("target", self.target, partition.target_topic),
        ):
            seen = port.topic_id(topic)
            if seen and self.topic_ids.setdefault(side, seen) != seen:
                return PartitionStop(
                    StopReason.RECREATED,
                    f"the {side} topic {topic} was deleted and created again",
                    hint="compare both topics; to mirror it afresh, delete the target topic and start the mirror again",
                )
        return None
