"""Which partitions are asked for, and which of them are shown: one rule for every command that lists partitions. Pure.

Topics say what is asked for: sums and exit codes are of them. States, codes and lag choose rows among these, and change
nothing of what is said of all.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from heliograph.model.partition import MirrorPartition
from heliograph.model.states import PartitionState
from heliograph.model.topic_patterns import matches_any

_NAME = re.compile(r"[a-zA-Z0-9._-]+")  # all that Kafka allows in a topic's name


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFilter:
    """`pattern`: a name, if it holds nothing that a name cannot hold, else a regular expression on the whole name.
    `partitions` None: all of them."""

    pattern: str
    partitions: frozenset[int] | None = None

    @property
    def is_name(self) -> bool:
        return _NAME.fullmatch(self.pattern) is not None

    def matches(self, topic: str) -> bool:
        return topic == self.pattern if self.is_name else matches_any((self.pattern,), topic)

    def means(self, where: MirrorPartition) -> bool:
        return self.matches(where.source_topic) and (
            self.partitions is None or where.partition in self.partitions
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFilter:
    """What is empty keeps all. `lagging`: what is not known to have been copied whole."""

    topics: tuple[TopicFilter, ...] = ()
    states: Collection[PartitionState] = field(default_factory=frozenset)
    codes: Collection[str] = field(default_factory=frozenset)
    lagging: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.topics or self.chooses_rows)

    @property
    def chooses_rows(self) -> bool:
        return bool(self.states or self.codes or self.lagging)

    def means(self, where: MirrorPartition) -> bool:
        """Whether it is asked for."""
        return not self.topics or any(each.means(where) for each in self.topics)

    def means_topic(self, source_topic: str) -> bool:
        """The same of a topic that has no partitions at the source."""
        return not self.topics or any(each.matches(source_topic) for each in self.topics)

    def keeps(
        self, where: MirrorPartition, state: PartitionState, lag_records: int | None, code: str | None = None
    ) -> bool:
        """Whether it is shown."""
        return (
            (not self.states or state in self.states)
            and (not self.codes or code in self.codes)
            and (not self.lagging or lag_records != 0)
            and self.means(where)
        )


EVERY_PARTITION = PartitionFilter()
