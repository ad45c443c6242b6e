"""What an operator's commands are decided by: partitions as clusters, ledger and running mirrors show them. Pure.

Where the ledger says that a partition is stopped or paused, that is its state; else what a running mirror says.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from heliograph.cluster.group_reads import TopicGroups
from heliograph.cluster.log_reads import LogSpan
from heliograph.controller.ledger_sight import LedgerSight
from heliograph.controller.ledger_word import LedgerWord, as_recorded
from heliograph.controller.snapshot import LinkSnapshot, PartitionSight, SourceTopic
from heliograph.model.link_status import LinkStatus
from heliograph.model.partition import MirrorPartition
from heliograph.model.partition_filter import PartitionFilter
from heliograph.model.partition_status import PartitionStatus

_FOR_EVER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long, and how much, the source keeps of a partition; None: no limit, or it is not known."""

    keeps_ms: int | None = None
    keeps_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    status: PartitionStatus
    sight: PartitionSight
    word: LedgerWord
    retention: Retention
    target_topic_id: str
    has_target: bool

    @property
    def where(self) -> MirrorPartition:
        return self.status.partition

    @property
    def name(self) -> str:
        return str(self.where.source)

    @property
    def code(self) -> str | None:
        """Why it is stopped."""
        if self.word.stop is not None:
            return self.word.stop.code
        return str(self.status.reason) if self.status.reason is not None else None

    def is_kept(self, filters: PartitionFilter) -> bool:
        return filters.keeps(self.where, self.status.state, self.status.lag_records, self.code)

    @property
    def lost_now(self) -> tuple[int, int] | None:
        """The offsets that the source no longer holds and the target never got, half-open; None: not known."""
        if self.sight.source is None or self.sight.target is None:
            return None
        first = self.sight.target.end
        return first, max(first, self.sight.source.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTrace:
    """What else there is on the target of a topic that is to be deleted. `beyond`: partitions that only it has."""

    groups: TopicGroups = field(default_factory=TopicGroups)
    beyond: dict[int, LogSpan] = field(default_factory=dict)


def partition_views(
    snapshot: LinkSnapshot, status: LinkStatus, ledger: LedgerSight
) -> tuple[PartitionView, ...]:
    sources = {topic.name: topic for topic in snapshot.sources}
    return tuple(
        _view(snapshot, sources[row.partition.source_topic], row, ledger) for row in status.partitions
    )


def _view(
    snapshot: LinkSnapshot, topic: SourceTopic, status: PartitionStatus, ledger: LedgerSight
) -> PartitionView:
    where = status.partition
    topic_id = snapshot.target_topic_id(where.target_topic)
    word = ledger.recorded.word(where.target, topic_id)
    target = snapshot.targets.get(where.target_topic)
    return PartitionView(
        status=as_recorded(status, word),
        sight=topic.partitions[where.partition],
        word=word,
        retention=_retention(topic),
        target_topic_id=topic_id,
        has_target=target is not None and where.partition < target.partitions,
    )


def _retention(topic: SourceTopic) -> Retention:
    configs = topic.config.effective
    if "delete" not in configs.get("cleanup.policy", "delete"):
        return Retention()
    return Retention(
        keeps_ms=_limit(configs.get("retention.ms")), keeps_bytes=_limit(configs.get("retention.bytes"))
    )


def _limit(value: str | None) -> int | None:
    return None if value is None or int(value) == _FOR_EVER else int(value)
