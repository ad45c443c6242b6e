"""What the controller has observed of a link's two clusters, as frozen values. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from heliograph.cluster.admin import TopicConfig
from heliograph.cluster.log_reads import LogSpan
from heliograph.cluster.producer_states import ProducerState
from heliograph.controller.gap_filling import UNREAD, GapFilling
from heliograph.controller.link_conflicts import LinkTopics
from heliograph.model.admission import LastBatch
from heliograph.model.errors import ClusterUnreachable
from heliograph.model.link import Link


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSight:
    """Both ends of one partition. What the target side lacks is None; `unreadable` says why it cannot be judged.

    A target that is being written is `unreadable` with its span known: good for a lag, not for a verdict.
    `source_end` is what a consumer of the link can read: with an open transaction that is not the end of the log.
    """

    source: LogSpan | None
    source_end: int | None
    target: LogSpan | None = None
    last_batch: LastBatch | None = None
    producer: ProducerState | None = None
    ends_in_filler: bool = False  # the target's last batch holds nothing but offsets: it is being aligned
    ends_in_gap: bool = False  # the target's last batch is a marker
    unreadable: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTopic:
    """`topic_id`: empty where the brokers have none (before Kafka 2.8)."""

    name: str
    replication_factor: int
    config: TopicConfig
    partitions: Mapping[int, PartitionSight]
    topic_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTopic:
    """`topic_id`: empty before Kafka 2.8. `replication_factor` 0: not known."""

    name: str
    partitions: int
    config: TopicConfig
    topic_id: str = ""
    replication_factor: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSnapshot:
    """`targets` holds the target topics that exist, by name. `flight_s`: how long an append may be on its way.
    `target_brokers`: all that are registered, as far as brokers tell, also those that are down."""

    link: Link
    source_cluster_id: str
    target_cluster_id: str
    target_brokers: int
    sources: tuple[SourceTopic, ...]
    targets: Mapping[str, TargetTopic]
    flight_s: float
    target_defaults: Mapping[str, str] = field(
        default_factory=dict
    )  # what a topic gets there that says nothing
    source_topics: Mapping[str, int] = field(
        default_factory=dict
    )  # all that the source has, and their partitions
    target_topic_ids: Mapping[str, str] = field(
        default_factory=dict
    )  # of all topics that the target has, by name
    target_servers: str = ""  # for command lines that an operator may paste
    state_lasts_ms: int | None = (
        None  # how long the target's brokers remember a producer; None: they do not tell
    )
    gaps: GapFilling = UNREAD  # how gaps of its topics will be filled

    @property
    def target_names(self) -> list[str]:
        """Of all its topics, whether they are there or not."""
        return [self.link.target_topic(topic.name) for topic in self.sources]

    @property
    def topics(self) -> LinkTopics:
        return LinkTopics(
            link=self.link,
            source_cluster_id=self.source_cluster_id,
            target_cluster_id=self.target_cluster_id,
            topics=tuple(topic.name for topic in self.sources),
        )

    @property
    def source_topic_ids(self) -> dict[str, str]:
        return {topic.name: topic.topic_id for topic in self.sources}

    @property
    def cluster_ids(self) -> tuple[str, str]:
        """Source and target: what tells this link from another of the same name."""
        return self.source_cluster_id, self.target_cluster_id

    def target_topic_id(self, target_topic: str) -> str:
        """Empty where it is not there."""
        found = self.targets.get(target_topic)
        return found.topic_id if found else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkAway:
    """A link that cannot be observed now. The id of a cluster that cannot be reached is None; `servers`: of both."""

    link: Link
    servers: tuple[str, str]
    source_cluster_id: str | None
    target_cluster_id: str | None
    problem: ClusterUnreachable
