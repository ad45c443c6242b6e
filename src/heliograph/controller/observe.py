"""Observe: read from both clusters of a link what a plan needs. Reads only."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from heliograph.cluster.admin import TopicConfig, describe_topic_configs, read_state_lasts_ms
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.flight import flight_s
from heliograph.cluster.metadata import ClusterMetadata, TopicMetadata
from heliograph.cluster.registered_brokers import brokers_for
from heliograph.cluster.tool_servers import tool_servers
from heliograph.cluster.topic_defaults import read_topic_defaults
from heliograph.controller.sights import Pair, read_sights
from heliograph.controller.snapshot import LinkSnapshot, SourceTopic, TargetTopic
from heliograph.model.link import Link
from heliograph.model.partition import TopicPartition
from heliograph.model.policy import Isolation
from heliograph.model.producer_id import producer_id

_NO_CONFIG = TopicConfig(own={}, effective={})


async def observe(
    link: Link, source: ClusterClient, target: ClusterClient, only: Collection[str] | None = None
) -> LinkSnapshot:
    """Everything about the link's matched topics and their targets, as of now. `only`: of these source topics."""
    source_metadata, all_of_target = await asyncio.gather(
        source.read_metadata(None), target.read_metadata(None)
    )
    matched = [
        topic
        for topic in source_metadata.topics.values()
        if (only is None or topic.name in only) and link.matches(topic.name, internal=topic.internal)
    ]
    matched.sort(key=lambda topic: topic.name)
    target_metadata = all_of_target.existing({link.target_topic(topic.name) for topic in matched})
    names = [topic.name for topic in matched]
    await asyncio.gather(_learn(source, names), _learn(target, target_metadata.topics))
    source_configs, target_configs, state_lasts_ms, target_defaults = await asyncio.gather(
        describe_topic_configs(source, names),
        describe_topic_configs(target, target_metadata.topics),
        read_state_lasts_ms(target),
        read_topic_defaults(target),
    )
    sights = await read_sights(source, target, _wanted(link, source, matched, target_metadata))
    return LinkSnapshot(
        link=link,
        source_cluster_id=source_metadata.cluster_id,
        target_cluster_id=target_metadata.cluster_id,
        target_brokers=await brokers_for(target, _most_replicas(link, matched)),
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
                partitions={p: sights[TopicPartition(topic.name, p)] for p in sorted(topic.leaders)},
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
                replication_factor=topic.replication_factor,
            )
            for topic in target_metadata.topics.values()
        },
    )


def _most_replicas(link: Link, topics: list[TopicMetadata]) -> int:
    return link.replication_factor or max((topic.replication_factor for topic in topics), default=0)


async def _learn(client: ClusterClient, topics: Collection[str]) -> None:
    """Leaders of these topics, for the questions that follow."""
    if topics:
        client.follow(topics)
        await client.refresh()


def _wanted(
    link: Link, source: ClusterClient, matched: list[TopicMetadata], existing: ClusterMetadata
) -> list[Pair]:
    wanted = []
    for topic in matched:
        target = existing.topics.get(link.target_topic(topic.name))
        own_id = producer_id(source.metadata.cluster_id, topic.name)
        committed = link.policy_of(topic.name).isolation is Isolation.READ_COMMITTED
        for number in topic.leaders:
            there = TopicPartition(target.name, number) if target and number in target.leaders else None
            where = TopicPartition(topic.name, number)
            wanted.append(Pair(source=where, target=there, own_id=own_id, committed=committed))
    return wanted
