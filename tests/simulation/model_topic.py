"""A topic's name and what it means: after it was deleted and created again, another partition with another id."""

from __future__ import annotations

from collections.abc import Callable

from heliograph.wire.error_codes import ErrorCode

from .answers import Answer, Waiting
from .model_broker import ModelPartition


class ModelTopic:
    """`partition` is None while the topic is deleted."""

    def __init__(self, make: Callable[[str], ModelPartition]) -> None:
        self._make = make
        self._made = 1
        self.partition: ModelPartition | None = make("id-1")

    def delete(self) -> None:
        self.partition = None

    def create(self) -> None:
        self._made += 1
        self.partition = self._make(f"id-{self._made}")

    def produce(self, node: int, batch: memoryview, topic_id: str = "") -> Answer | Waiting:
        """By name, to whatever bears it now; by id, to that topic or nowhere."""
        if self.partition is None or (topic_id and self.partition.topic_id != topic_id):
            return Answer(ErrorCode.UNKNOWN_TOPIC_ID if topic_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self.partition.produce(node, batch)
