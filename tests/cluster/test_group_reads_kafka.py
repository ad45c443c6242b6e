"""Groups as a stranger sees them: who is in one, and which have commits on a topic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition

from heliograph.cluster.claims_group import read_runner
from heliograph.cluster.election import Election
from heliograph.cluster.group_reads import read_members, read_topic_groups
from heliograph.lab.cluster import LabCluster
from tests.support.topics import create_topic

from .held_topics import claiming
from .test_record_log_kafka import client_of

pytestmark = pytest.mark.kafka


async def test_members_of_an_election_say_who_they_are(
    target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    group = unique_topic("heliograph.group")
    async with client_of(target_cluster) as client:
        assert await read_members(client, group) == ()
        placed = asyncio.Event()
        member = Election(client, group, claiming("desk", 7), on_change=lambda _standing: placed.set())
        member.start()
        try:
            await placed.wait()
            (found,) = await read_members(client, group)
            assert read_runner(found.metadata) == ("desk", 7)
        finally:
            await member.aclose()
        assert await read_members(client, group) == ()


async def test_groups_with_commits_on_a_topic_are_found(
    target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    topic, other, group = unique_topic("read"), unique_topic("unread"), unique_topic("readers")
    for each in (topic, other):
        create_topic(target_cluster.bootstrap_servers, each, 2)
    consumer = Consumer({"bootstrap.servers": target_cluster.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 1, 0)], asynchronous=False)
    consumer.close()
    async with client_of(target_cluster) as client:
        found = await read_topic_groups(client, [topic, other])
    assert {name: (dict(each.partitions), each.problem) for name, each in found.items()} == {
        topic: ({group: (1,)}, None),
        other: ({}, None),
    }
