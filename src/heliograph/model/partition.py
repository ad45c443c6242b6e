"""Which partition is meant, and where its copy lives."""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}"


class MirrorPartition(NamedTuple):
    """One partition of one link: the key by which controller and lanes speak of it."""

    link: str
    source_topic: str
    target_topic: str
    partition: int

    @property
    def source(self) -> TopicPartition:
        return TopicPartition(self.source_topic, self.partition)

    @property
    def target(self) -> TopicPartition:
        return TopicPartition(self.target_topic, self.partition)

    def __str__(self) -> str:
        return f"{self.link}/{self.source_topic}:{self.partition}"
