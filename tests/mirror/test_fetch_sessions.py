"""Fetch sessions at real brokers: evicted, refused, with partitions that come, go and change their leader, nothing is
missed (P1 to P4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from heliograph.cluster.client import CONTROL
from heliograph.cluster.fetches import fetch
from heliograph.copier.fetcher import Fetcher
from heliograph.copier.lane import Lane
from heliograph.copier.lane_clusters import LaneClusters
from heliograph.copier.spec import CopySpec
from heliograph.lab.cluster import LabCluster
from heliograph.model.states import PartitionState
from heliograph.wire.fetch import NO_SESSION
from heliograph.wire.fetch_request import LAST_EPOCH, FetchAsk
from tests.support.judge import assert_identical
from tests.support.plain_mirror import planned_lane, settings_for
from tests.support.replicas import ReplicaView, create_assigned
from tests.support.steady_producer import SteadyProducer
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.faults]

LIMIT_S = 60.0
PARTITIONS = 6


class Scene:
    """A lane between two clusters, with all that was planned for it."""

    def __init__(self, lane: Lane, links: LaneClusters, specs: list[CopySpec]) -> None:
        self.lane, self.links, self.specs = lane, links, specs

    @property
    def fetchers(self) -> list[Fetcher]:
        return [each for both in self.lane._workers._fetches.values() for each in (both.busy, both.calm)]

    @property
    def session_ids(self) -> set[int]:
        return {fetcher._session._id for fetcher in self.fetchers if len(fetcher._session)}

    async def evict(self) -> None:
        """Whoever names a session in a last request ends it: as good as an eviction."""
        source = next(iter(self.links._clients.values()))
        for fetcher in self.fetchers:
            ask = FetchAsk([], [], fetcher._session._id, LAST_EPOCH)
            await fetch(
                source,
                fetcher._node,
                CONTROL,
                ask,
                min_bytes=0,
                max_bytes=1,
                max_wait_ms=0,
                read_committed=True,
            )

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not condition():  # noqa: ASYNC110 - the lane has no event for this
                await asyncio.sleep(0.02)

    async def until_copied(self, count: int) -> None:
        """So many records in all, and nobody has stopped."""

        def copied() -> bool:
            assert not [copy.stopped for copy in self.lane.copies.values() if copy.stopped]
            return sum(copy.next_offset or 0 for copy in self.lane.copies.values()) >= count

        await self.until(copied)
        await self.until(
            lambda: all(copy.state is PartitionState.CAUGHT_UP for copy in self.lane.copies.values())
        )


@asynccontextmanager
async def scene(source: LabCluster, target: LabCluster, topic: str) -> AsyncIterator[Scene]:
    settings = settings_for(source.bootstrap_servers, target.bootstrap_servers, [topic])
    async with planned_lane(settings) as (todo, lane, links):
        yield Scene(lane, links, [copy.spec for copy in todo.copies])
        await lane.drain()


@pytest.fixture(scope="module")
def two_brokers() -> Iterator[LabCluster]:
    with LabCluster.start(name="sessions", brokers=2, heap_mb=384) as cluster:
        yield cluster


async def test_evictions_moved_leaders_and_partitions_that_come_and_go_miss_nothing(
    two_brokers: LabCluster, target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    source, topic = two_brokers.bootstrap_servers, unique_topic("sessions")
    nodes = [broker.node_id for broker in two_brokers.brokers]
    await asyncio.to_thread(create_assigned, source, topic, [nodes, nodes[::-1]] * (PARTITIONS // 2))
    async with scene(two_brokers, target_cluster, topic) as it:
        with SteadyProducer(source, topic, rate_per_s=300) as producer:
            it.links.assign(it.specs)
            await it.until(lambda: all(copy.next_offset for copy in it.lane.copies.values()))
            await it.until(lambda: NO_SESSION not in it.session_ids)
            interruptions = sum(copy.interruptions for copy in it.lane.copies.values())
            for _ in range(5):
                before = it.session_ids
                await it.evict()
                await it.until(lambda: NO_SESSION not in it.session_ids and not before & it.session_ids)  # noqa: B023
            assert sum(copy.interruptions for copy in it.lane.copies.values()) == interruptions
            for spec in it.specs[::2]:
                assert await it.lane.revoke(spec.partition)
                await asyncio.sleep(0.3)
                it.links.assign([spec])
            view = ReplicaView(source, topic)
            for order in (nodes, nodes[::-1], nodes):
                await asyncio.to_thread(view.move_leaders, order)
                await asyncio.sleep(1.0)
            count = await asyncio.to_thread(producer.stop)
        await it.until_copied(count)
    assert_identical(source, target_cluster.bootstrap_servers, [topic])


async def test_a_broker_that_keeps_no_sessions_is_read_all_the_same(
    target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    """Two slots are none: a broker of this version divides them among eight caches."""
    topic = unique_topic("sessionless")
    slots = {"max.incremental.fetch.session.cache.slots": "2"}
    with LabCluster.start(name="slots", heap_mb=384, properties=slots) as cluster:
        source = cluster.bootstrap_servers
        create_topic(source, topic, PARTITIONS)
        async with scene(cluster, target_cluster, topic) as it:
            with SteadyProducer(source, topic, rate_per_s=300) as producer:
                it.links.assign(it.specs)
                await it.until(lambda: all(copy.next_offset for copy in it.lane.copies.values()))
                count = await asyncio.to_thread(producer.stop)
            await it.until_copied(count)
            assert it.session_ids == {NO_SESSION}
        assert_identical(source, target_cluster.bootstrap_servers, [topic])
