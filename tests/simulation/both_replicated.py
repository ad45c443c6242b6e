"""A partition on three real brokers and its model: what happens to one happens to the other, every answer is compared.

Real followers fetch when they fetch: what each broker says may take a while to be what the model says.
"""

from __future__ import annotations

import asyncio
import time

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from heliograph.lab.cluster import LabCluster
from heliograph.model.errors import RequestFailed
from heliograph.wire.error_codes import ErrorCode

from .answers import Deleting, Waiting
from .model_broker import ModelPartition
from .model_script import ModelScript
from .raw_batch import TopicRules
from .real_partition import RealPartition
from .requests import DeleteRecords, Produce, Seen, WriteMarkers, now_ms

NOTICED_S = 25.0


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

    async def write_markers(self, step: WriteMarkers) -> None:
        """One error for each producer id, that of the marker that was settled last: first those that are refused."""
        real = await self.real.perform(step)
        answers = [self.model.write_marker(self.model.truth.leader, each) for each in step.markers]
        self.replicate()
        settled: dict[int, int] = {}
        for waits in (False, True):
            for marker, answer in zip(step.markers, answers, strict=True):
                if isinstance(answer, Waiting) is waits:
                    outcome = self.model.outcome(answer) if isinstance(answer, Waiting) else answer
                    assert outcome is not None
                    settled[marker.producer_id] = outcome.error
        assert real == tuple(sorted((n, ErrorCode.name_of(error)) for n, error in settled.items())), step

    async def delete_records(self, step: DeleteRecords) -> None:
        real = await self.real.perform(step)
        answer = self.model.delete_records(self.model.truth.leader, step.before_offset)
        self.replicate()
        outcome = self.model.deleted(answer) if isinstance(answer, Deleting) else answer
        assert outcome is not None
        assert real == (ErrorCode.name_of(outcome.error), outcome.offset), step

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


def alter(cluster: LabCluster, topic: str, **configs: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    how = AlterConfigOpType.SET
    entries = [
        ConfigEntry(key.replace("_", "."), value, incremental_operation=how) for key, value in configs.items()
    ]
    resource = ConfigResource("topic", topic, incremental_configs=entries)
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(30)
