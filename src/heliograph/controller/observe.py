"""Observe: read from both clusters of a link what a plan needs. Reads only."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from functools import partial

from heliograph.cluster.admin import TopicConfig, describe_topic_configs, read_state_lasts_ms
from heliograph.cluster.at_most import at_most
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.flight import flight_s
from heliograph.cluster.log_reads import read_batch, read_producer, read_span, read_stable_end
from heliograph.cluster.metadata import ClusterMetadata, TopicMetadata
from heliograph.cluster.tool_servers import tool_servers
from heliograph.cluster.topic_defaults import read_topic_defaults
from heliograph.controller.snapshot import LinkSnapshot, PartitionSight, SourceTopic, TargetTopic
from heliograph.model.admission import LastBatch
from heliograph.model.errors import ProtocolError, RequestFailed
from heliograph.model.link import Link
from heliograph.model.partition import TopicPartition
from heliograph.model.policy import Isolation
from heliograph.model.producer_id import producer_id
from heliograph.wire.filler import is_filler

READS_AT_ONCE = 64
BEING_WRITTEN = "the target is being written right now"
_NO_CONFIG = TopicConfig(own={}, effective={})


async def observe(
    link: Link, source: ClusterClient, target: ClusterClient, only: Collection[str] | None = None
) -> LinkSnapshot:
    """Everything about the link's matched topics and their targets, as of now. `only`: of these source topics."""
    source_metadata = await source.read_metadata(None)
    matched = [
        topic
        for topic in source_metadata.topics.values()
        if (only is None or topic.name in only) and link.matches(topic.name, internal=topic.internal)
    ]
    matched.sort(key=lambda topic: topic.name)
    target_names = {link.target_topic(topic.name) for topic in matched}
    all_of_target = await target.read_metadata(None)
    target_metadata = _existing(all_of_target, target_names)
    await _learn(source, [t.name for t in matched])
    await _learn(target, target_metadata.topics)
    source_configs, target_configs = await asyncio.gather(
        describe_topic_configs(source, [t.name for t in matched]),
        describe_topic_configs(target, target_metadata.topics),
    )
    sights = await _sights(link, source, target, matched, target_metadata)
    state_lasts_ms, target_defaults = await asyncio.gather(
        read_state_lasts_ms(target), read_topic_defaults(target)
    )
    return LinkSnapshot(
        link=link,
        source_cluster_id=source_metadata.cluster_id,
        target_cluster_id=target_metadata.cluster_id,
        target_brokers=len(target_metadata.brokers),
        state_lasts_ms=state_lasts_ms,
        target_defaults=target_defaults,
        flight_s=flight_s(target.properties),
        source_topics={t.name: t.partitions for t in source_metadata.topics.values() if not t.internal},
        target_topic_ids={t.name: t.topic_id for t in all_of_target.topics.values()},
        target_servers=tool_servers(target.properties),
        sources=tuple(
            SourceTopic(
                name=topic.name,
                replication_factor=topic.replication_factor,
                config=source_configs.get(topic.name, _NO_CONFIG),
                partitions={p: sights[topic.name, p] for p in sorted(topic.leaders)},
                topic_id=topic.topic_id,
            )
            for topic in matched
        ),
        targets={
            topic.name: TargetTopic(
                name=topic.name,
                partitions=topic.partitions,
                config=target_configs.get(topic.name, _NO_CONFIG),
                topic_id=topic.topic_id,
            )
            for topic in target_metadata.topics.values()
        },
    )


def _existing(metadata: ClusterMetadata, names: set[str]) -> ClusterMetadata:
    found = {name: topic for name, topic in metadata.topics.items() if name in names}
    return ClusterMetadata(
        cluster_id=metadata.cluster_id,
        controller=metadata.controller,
        brokers=metadata.brokers,
        topics=found,
    )


async def _learn(client: ClusterClient, topics: Collection[str]) -> None:
    """Leaders of these topics, for the questions that follow."""
    if topics:
        client.follow(topics)
        await client.refresh()


async def _sights(
    link: Link,
    source: ClusterClient,
    target: ClusterClient,
    matched: list[TopicMetadata],
    existing: ClusterMetadata,
) -> dict[tuple[str, int], PartitionSight]:
    async def see(topic: TopicMetadata, partition: int) -> tuple[tuple[str, int], PartitionSight]:
        target_topic = existing.topics.get(link.target_topic(topic.name))
        has_target = target_topic is not None and partition in target_topic.leaders
        return (topic.name, partition), await _see(
            source,
            target,
            TopicPartition(topic.name, partition),
            TopicPartition(link.target_topic(topic.name), partition) if has_target else None,
            link.policy_of(topic.name).isolation,
        )

    questions = (partial(see, topic, p) for topic in matched for p in topic.leaders)
    return dict(await at_most(READS_AT_ONCE, questions))


async def _see(
    source: ClusterClient,
    target: ClusterClient,
    here: TopicPartition,
    there: TopicPartition | None,
    isolation: Isolation,
) -> PartitionSight:
    """The target first: what was copied meanwhile is then in the source's log too, and not `target_ahead`."""
    sight = PartitionSight(source=None, source_end=None)
    if there is not None:
        sight = await _see_target(target, there, producer_id(source.metadata.cluster_id, here.topic))
    try:
        span = await read_span(source, here)
        committed = isolation is Isolation.READ_COMMITTED
        readable = await read_stable_end(source, here) if committed else span.high_watermark
        return replace(sight, source=span, source_end=readable)
    except (RequestFailed, ProtocolError) as problem:
        return replace(sight, unreadable=problem.message)


async def _see_target(target: ClusterClient, there: TopicPartition, own_id: int) -> PartitionSight:
    """The target's half; `unreadable` also while somebody writes: its parts would then not fit together."""
    try:
        before = await read_producer(target, there, own_id)
        span = await read_span(target, there)
        last = None
        if span.start < span.high_watermark:
            last = await read_batch(target, there, span.high_watermark - 1)
        after = await read_producer(target, there, own_id)
    except (RequestFailed, ProtocolError) as problem:
        return PartitionSight(source=None, source_end=None, unreadable=problem.message)
    settled = before == after and span.high_watermark == span.end
    return PartitionSight(
        source=None,
        source_end=None,
        target=span,
        last_batch=LastBatch(producer_id=last[0].producer_id, last_sequence=last[0].last_sequence)
        if last
        else None,
        ends_in_filler=last is not None and is_filler(*last),
        ends_in_gap=last is not None and last[0].is_control,
        producer=after,
        unreadable=None if settled else BEING_WRITTEN,
    )
