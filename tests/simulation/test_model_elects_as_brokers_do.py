"""Three real brokers against the model: elections, too few replicas, and what each broker remembers then."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from heliograph.lab.cluster import LabCluster
from heliograph.model.errors import RequestFailed
from heliograph.wire.error_codes import ErrorCode

from .model_broker import ModelPartition, Waiting
from .raw_batch import TopicRules
from .real_partition import RealPartition
from .requests import IDS, OLD_MS, Fetch, ModelScript, Produce, Seen, now_ms

pytestmark = [pytest.mark.kafka, pytest.mark.faults, pytest.mark.slow]

BROKERS = (1, 2, 3)
NOTICED_S = 25.0


@pytest.fixture(scope="module")
def three_brokers() -> Iterator[LabCluster]:
    with LabCluster.start(name="three", brokers=3, heap_mb=320) as cluster:
        yield cluster


class Both:
    """A replicated partition and its model."""

    def __init__(self, cluster: LabCluster, topic: str, replicas: tuple[int, ...], min_insync: int) -> None:
        self.cluster = cluster
        self.real = RealPartition(cluster.bootstrap_servers, topic)
        rules = TopicRules(min_insync=min_insync)
        self.model = ModelPartition("id-1", brokers=replicas, rules=rules, now_ms=now_ms)
        self.script = ModelScript(self.model)

    def kill(self, node: int) -> None:
        self.cluster.brokers[node - 1].kill()
        self.model.die(node)

    def start(self, node: int) -> None:
        self.cluster.brokers[node - 1].start()
        self.model.come_back(node)

    async def elected(self) -> None:
        """The real controller has elected somebody: so does the model's."""
        leader = await self.real.wait_for_leader(above_epoch=self.model.truth.epoch)
        self.model.elect(leader.node, epoch=leader.epoch)
        self.replicate()

    def replicate(self) -> None:
        for node in self.model.replicas:
            if node not in self.model.down:
                self.model.hear(node)
        for _ in range(2):  # the second fetch tells the leader that the first one arrived
            for node in self.model.replicas:
                self.model.replicate(node)

    async def produce(self, step: Produce) -> Seen:
        batch = memoryview(step.batch(now_ms()))
        real = await self.real.produce(self.real.leader.node, batch)
        answer = self.model.produce(self.model.truth.leader, batch)
        self.replicate()
        outcome = self.model.outcome(answer) if isinstance(answer, Waiting) else answer
        assert outcome is not None
        assert real == (ErrorCode.name_of(outcome.error), outcome.offset), step
        return real

    async def same_seen_at(self, node: int, *, within_s: float = NOTICED_S) -> Seen:
        """Followers fetch when they fetch: the real answer may take a while to be the model's."""
        deadline = time.monotonic() + within_s
        modelled = self.script.look(node)
        while (real := await self._look(node)) != modelled:
            assert time.monotonic() < deadline, f"broker {node}: {real}, the model: {modelled}"
        return real

    async def _look(self, node: int) -> Seen:
        await asyncio.sleep(0.1)
        try:
            await self.real.refresh()
            return await self.real.look(node)
        except RequestFailed:
            return ()  # it is not known to be up yet


def create(cluster: LabCluster, topic: str, replicas: tuple[int, ...], **configs: str) -> None:
    """The first replica is the preferred leader."""
    named = {key.replace("_", "."): value for key, value in configs.items()}
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    new = NewTopic(topic, 1, replica_assignment=[list(replicas)], config=named)
    for created in admin.create_topics([new]).values():
        created.result(30)


async def test_a_clean_election_keeps_what_was_acknowledged_and_what_was_remembered(
    three_brokers: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    topic = unique_topic("clean")
    create(three_brokers, topic, BROKERS, min_insync_replicas="2")

    both = Both(three_brokers, topic, BROKERS, min_insync=2)
    async with both.real:
        await both.real.wait_for_leader()
        for sequence in range(7):
            await both.produce(Produce(sequence=sequence))
        for node in BROKERS:
            await both.same_seen_at(node)
        both.kill(1)
        await both.elected()
        for sequence in (6, 2, 1, 7, 6):  # five are remembered by the followers too
            await both.produce(Produce(sequence=sequence))
        for offset, epoch in ((7, 0), (8, 0), (3, 0)):
            fetch = Fetch(offset=offset, last_fetched_epoch=epoch)
            assert both.script.perform(fetch) == await both.real.perform(fetch)
        both.start(1)
        both.replicate()
        await both.same_seen_at(1)
        leader, epoch = both.model.truth
        for node, off in ((1, 0), (1, -1), (leader, -1), (leader, 1)):
            assert both.script.ask_with_epoch(node, epoch + off) == await both.real.ask_with_epoch(
                node, epoch + off
            )


async def test_too_few_replicas_refuse_before_they_append(
    three_brokers: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    topic = unique_topic("few")
    create(three_brokers, topic, BROKERS, min_insync_replicas="3")

    both = Both(three_brokers, topic, BROKERS, min_insync=3)
    async with both.real:
        await both.real.wait_for_leader()
        await both.produce(Produce())
        both.kill(3)
        await asyncio.sleep(8)  # until it is out of the in-sync set
        both.model.shrink(3)
        await both.produce(Produce(sequence=1))
        await both.produce(Produce())  # a duplicate, too, is refused
        await both.same_seen_at(1)
        both.start(3)
        both.replicate()
        await asyncio.sleep(4)
        await both.produce(Produce(sequence=1))


async def test_an_unclean_election_throws_away_what_was_acknowledged(
    three_brokers: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    topic = unique_topic("unclean")
    create(three_brokers, topic, (1, 2), unclean_leader_election_enable="true")

    both = Both(three_brokers, topic, (1, 2), min_insync=1)
    async with both.real:
        await both.real.wait_for_leader()
        await both.produce(Produce(producer_id=IDS[1], sequence=9, age_ms=OLD_MS))
        await both.produce(Produce(count=2))
        await both.same_seen_at(2)
        both.kill(2)
        await asyncio.sleep(8)  # until it is out of the in-sync set
        both.model.shrink(2)
        await both.produce(Produce(sequence=2))
        await both.produce(Produce(sequence=3))
        both.kill(1)
        both.start(2)
        await both.elected()
        await both.same_seen_at(2)
        await both.produce(Produce(sequence=4))
        await both.produce(Produce(sequence=2, count=2))
        both.start(1)
        both.replicate()
        await both.same_seen_at(1)
