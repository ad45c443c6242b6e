"""Snapshots, copies and reports as tests need them: one link, sf to nyc, and whatever is said to differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from heliograph.cluster.admin import TopicConfig
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.log_reads import LogSpan
from heliograph.cluster.metadata import Broker, ClusterMetadata, Leader, TopicMetadata
from heliograph.cluster.producer_states import ProducerState
from heliograph.controller.plan import CopyPartition, RefusePartition
from heliograph.controller.snapshot import LinkSnapshot, PartitionSight, SourceTopic, TargetTopic
from heliograph.copier.spec import CopySpec
from heliograph.model.admission import LastBatch, Refused
from heliograph.model.link import Link
from heliograph.model.partition import MirrorPartition
from heliograph.model.partition_status import PartitionStatus
from heliograph.model.producer_id import producer_id
from heliograph.model.states import PartitionState, StopReason

SF_ID, NYC_ID = "sf-cluster-id", "nyc-cluster-id"
LINK = Link(name="sf-to-nyc", source="sf", target="nyc", topics=(".*",))


def span(start: int, end: int, *, high_watermark: int | None = None) -> LogSpan:
    return LogSpan(start=start, high_watermark=end if high_watermark is None else high_watermark, end=end)


def source_sight(start: int, end: int) -> PartitionSight:
    """A partition that is not on the target."""
    return PartitionSight(source=span(start, end), source_end=end)


def mirrored_sight(*, source_end: int, target_end: int, topic: str = "orders") -> PartitionSight:
    """A mirror in good order up to `target_end`."""
    ours = producer_id(SF_ID, topic)
    return PartitionSight(
        source=span(0, source_end),
        source_end=source_end,
        target=span(0, target_end),
        last_batch=LastBatch(producer_id=ours, last_sequence=target_end - 1) if target_end else None,
        producer=ProducerState(epoch=0, last_sequence=target_end - 1, last_timestamp=0)
        if target_end
        else None,
    )


def config(own: Mapping[str, str] | None = None, **effective: str) -> TopicConfig:
    """`effective` names are Kafka's with `_` for `.`; what is set on the topic is effective too."""
    dotted = {name.replace("_", "."): value for name, value in effective.items()}
    return TopicConfig(own=own or {}, effective={**dotted, **(own or {})})


def source_topic(name: str = "orders", sights: Sequence[PartitionSight] = (), **changed: Any) -> SourceTopic:
    partitions = dict(enumerate(sights or [source_sight(0, 100)]))
    values = {"replication_factor": 1, "config": config(), "partitions": partitions, **changed}
    return SourceTopic(name=name, **values)


def target_topic(
    name: str = "orders",
    partitions: int = 1,
    *,
    topic_id: str = "",
    own: Mapping[str, str] | None = None,
    **effective: str,
) -> TargetTopic:
    values = config(own, **effective)
    return TargetTopic(name=name, partitions=partitions, config=values, topic_id=topic_id)


def snapshot(
    *sources: SourceTopic,
    link: Link = LINK,
    source_id: str = SF_ID,
    target_id: str = NYC_ID,
    target_brokers: int = 1,
    targets: Iterable[TargetTopic] = (),
    state_lasts_ms: int | None = None,
    flight_s: float = 30.0,
    target_servers: str = "nyc:9092",
    target_defaults: Mapping[str, str] | None = None,
) -> LinkSnapshot:
    return LinkSnapshot(
        link=link,
        source_cluster_id=source_id,
        target_cluster_id=target_id,
        target_brokers=target_brokers,
        sources=sources,
        targets={topic.name: topic for topic in targets},
        state_lasts_ms=state_lasts_ms,
        flight_s=flight_s,
        target_servers=target_servers,
        target_defaults=target_defaults or {},
        source_topics={topic.name: len(topic.partitions) for topic in sources},
    )


def partition(number: int = 0, *, topic: str = "orders", link: str = "sf-to-nyc") -> MirrorPartition:
    return MirrorPartition(link, topic, topic, number)


def copy(where: MirrorPartition, *, next_offset: int | None = 0, goal: int | None = 100) -> CopyPartition:
    spec = CopySpec(
        partition=where,
        source="sf",
        target="nyc",
        target_cluster_id=NYC_ID,
        producer_id=producer_id(SF_ID, where.source_topic),
        max_batch_bytes=1_048_588,
    )
    return CopyPartition(spec=spec, next_offset=next_offset, goal=goal)


def refusal(where: MirrorPartition) -> RefusePartition:
    why = Refused(reason=StopReason.FOREIGN, message="somebody else wrote it", hint="delete it")
    return RefusePartition(partition=where, why=why)


def progress(where: MirrorPartition, next_offset: int | None, **changed: Any) -> PartitionStatus:
    values: dict[str, Any] = {
        "state": PartitionState.COPYING,
        "source_end": 100,
    }
    return PartitionStatus(partition=where, next_offset=next_offset, **{**values, **changed})


def metadata_of(topics: Mapping[str, int]) -> ClusterMetadata:
    """What metadata shows of topics with so many partitions."""
    return ClusterMetadata(
        cluster_id="id",
        controller=1,
        brokers={1: Broker(1, "127.0.0.1", 9092)},
        topics={
            name: TopicMetadata(
                name=name,
                topic_id=f"id of {name}",
                internal=False,
                error=0,
                leaders={number: Leader(1, 0) for number in range(partitions)},
                replication_factor=1,
            )
            for name, partitions in topics.items()
        },
    )


async def no_configs(_client: ClusterClient, topics: Iterable[str]) -> dict[str, TopicConfig]:
    """Of target topics whose sources are gone: none of them is half built."""
    return dict.fromkeys(topics, config())
