"""The topics that a copy began with, by their identity: a topic that was deleted and created again is another one."""

from __future__ import annotations

from uuid import UUID

from heliograph.cluster.metadata import NO_ID
from heliograph.model.errors import PartitionStop
from heliograph.model.hints import AFRESH, MADE_AGAIN
from heliograph.model.partition import MirrorPartition
from heliograph.model.states import StopReason

SOURCE, TARGET = "source", "target"
_HINTS = {
    SOURCE: f"the target holds records of the former source topic: compare both topics; {AFRESH}",
    TARGET: MADE_AGAIN,
}


class TopicIds:
    def __init__(self, partition: MirrorPartition) -> None:
        self._names = {SOURCE: partition.source_topic, TARGET: partition.target_topic}
        self._known: dict[str, str] = {}
        self._bytes = {SOURCE: b"", TARGET: b""}  # the ids among them

    @property
    def source(self) -> bytes:
        """So that nothing is read of another topic of its name; empty where the source has no ids."""
        return self._bytes[SOURCE]

    @property
    def target(self) -> bytes:
        """So that no append goes to another topic of its name; empty where the target has no ids."""
        return self._bytes[TARGET]

    def seen(self, side: str, identity: str) -> PartitionStop | None:
        """What metadata says now; empty where it is not known. The first one is the one."""
        if not identity:
            return None
        known = self._known.get(side, identity)
        if known == identity or _has_id(known) != _has_id(identity):
            # A cluster that is being upgraded gives its topics ids, and its older brokers do not tell them.
            self._known[side] = best = max(known, identity, key=_has_id)
            self._bytes[side] = UUID(best).bytes if _has_id(best) else b""
            return None
        return PartitionStop(
            StopReason.RECREATED,
            f"the {side} topic {self._names[side]} was deleted and created again",
            hint=_HINTS[side],
        )


def _has_id(identity: str) -> bool:
    return bool(identity) and not identity.startswith(NO_ID)
