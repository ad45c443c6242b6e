"""A partition of a real cluster and its model, given every step of a script together: every answer is compared."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from heliograph.lab.cluster import LabCluster
from tests.support.topics import create_topic

from .model_broker import ModelPartition
from .model_script import ModelScript
from .raw_batch import Sizes, TopicRules
from .real_partition import RealPartition
from .requests import MAX_MESSAGE_BYTES, LetExpire, Produce, Restart, Step, now_ms

CHECK_INTERVAL_MS = 1_000  # how often a broker of `EXPIRING` forgets producers
EXPIRING = {"producer.id.expiration.check.interval.ms": str(CHECK_INTERVAL_MS)}
# Transactions are then begun by appending to one: no coordinator is asked whether there is one.
UNVERIFIED = {"transaction.partition.verification.enable": "false"}
TOPIC_CONFIG = {"max.message.bytes": str(MAX_MESSAGE_BYTES)}
RULES = TopicRules(sizes=Sizes(max_message_bytes=MAX_MESSAGE_BYTES))


class Both:
    def __init__(self, cluster: LabCluster, topic: str, rules: TopicRules) -> None:
        self._cluster = cluster
        self._real = RealPartition(cluster.bootstrap_servers, topic)
        self._model = ModelScript(ModelPartition("id-1", rules=rules, now_ms=now_ms))

    async def run(self, script: Sequence[Step]) -> None:
        async with self._real:
            await self._real.wait_for_leader()
            for number, step in enumerate(script):
                await self._compare(number, step)

    async def _compare(self, number: int, step: Step) -> None:
        match step:
            case Restart(killed=killed):
                epoch, broker = self._real.leader.epoch, self._cluster.brokers[0]
                broker.kill() if killed else broker.stop()
                broker.start()
                leader = await self._real.wait_for_leader(above_epoch=epoch)
                self._model.perform(step)
                self._model.partition.elect(leader.node, epoch=leader.epoch)
            case LetExpire():
                await asyncio.sleep(2.5 * CHECK_INTERVAL_MS / 1000)
                self._model.perform(step)
            case _:
                batch = step.batch(now_ms()) if isinstance(step, Produce) else bytearray()
                modelled = self._model.perform(step, memoryview(batch))
                real = await self._real.perform(step, memoryview(batch))
                assert modelled == real, f"step {number}: {step}\nthe model: {modelled}\nthe broker: {real}"


def compare(
    cluster: LabCluster,
    topic: str,
    script: Sequence[Step],
    *,
    configs: Mapping[str, str] = TOPIC_CONFIG,
    rules: TopicRules = RULES,
) -> None:
    create_topic(cluster.bootstrap_servers, topic, configs=configs)
    asyncio.run(Both(cluster, topic, rules).run(script))
