"""What `plan` says of groups that have commits on topics which are being built."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.group_reads import TopicGroups
from heliograph.cluster.properties import parse_properties
from heliograph.controller.build_settings import with_build
from heliograph.controller.built_groups import warn_of_groups, words_of
from heliograph.lab.cluster import LabCluster
from tests.support.topics import create_topic

from .observed import LINK, config, snapshot, source_topic, target_topic

COMPACT = {"cleanup.policy": "compact"}


def test_each_topic_with_groups_is_named_and_a_problem_once() -> None:
    found = {
        "orders": TopicGroups(partitions={"billing": (0,), "audit": (1,)}, problem="not authorized"),
        "users": TopicGroups(problem="not authorized"),
    }
    first, second = words_of("west", found)
    assert "topic orders" in first
    assert "audit, billing" in first
    assert second.endswith("cannot be listed: not authorized")


@pytest.mark.kafka
async def test_groups_with_commits_on_a_topic_that_is_built_are_found(
    target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    topic, servers = unique_topic("built"), target_cluster.bootstrap_servers
    settings = with_build({"cleanup.policy": "compact"})
    create_topic(servers, topic, configs=settings)
    consumer = Consumer({"bootstrap.servers": servers, "group.id": f"reader-of-{topic}"})
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()
    client = ClusterClient("nyc", parse_properties({"bootstrap.servers": servers}))
    await client.connect()
    try:
        seen = snapshot(
            source_topic(topic, config=config(COMPACT, **COMPACT)),
            targets=[target_topic(topic, 1, own=settings)],
        )
        (said,) = await warn_of_groups(client, seen)
        assert f"link {LINK.name}: topic {topic}" in said
        assert f"reader-of-{topic}" in said
        built = snapshot(
            source_topic(topic, config=config(COMPACT, **COMPACT)),
            targets=[target_topic(topic, 1, own=COMPACT)],
        )
        assert await warn_of_groups(client, built) == []
    finally:
        await client.aclose()
