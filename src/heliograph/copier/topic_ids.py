"""The topics that a copy began with, by their ids: a topic that was deleted and created again is another one."""

from __future__ import annotations

from uuid import UUID

from heliograph.model.errors import PartitionStop
from heliograph.model.partition import MirrorPartition
from heliograph.model.states import StopReason

SOURCE, TARGET = "source", "target"


class TopicIds:
    def __init__(self, partition: MirrorPartition) -> None:
        self._names = {SOURCE: partition.source_topic, TARGET: partition.target_topic}
        self._known: dict[str, str] = {}

    @property
    def target(self) -> bytes:
        """So that no append goes to another topic of its name; empty where the target has no ids."""
        known = self._known.get(TARGET)
        return UUID(known).bytes if known else b""

    def seen(self, side: str, topic_id: str) -> PartitionStop | None:
        """What metadata says now; empty where it is not known. The first id is the one."""
        if not topic_id or self._known.setdefault(side, topic_id) == topic_id:
            return None
        return PartitionStop(
            StopReason.RECREATED,
            f"the {side} topic {self._names[side]} was deleted and created again",
            hint="compare both topics; to mirror it afresh, delete the target topic and start the mirror again",
        )
