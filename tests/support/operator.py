"""An operator in a test: writes commands and reads what became of them, by a client of its own, as `heliograph topics`
does; and a scene of one topic for whole runs of the product."""

from __future__ import annotations

import asyncio
import getpass
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from confluent_kafka import Producer

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.own_topics import OwnTopics
from heliograph.cluster.properties import parse_properties
from heliograph.controller.ledger import Ledger
from heliograph.controller.ledger_word import Answer
from heliograph.controller.recorded import Recorded
from heliograph.lab.cluster import LabCluster
from heliograph.model.clock import time_of_day
from heliograph.model.command import Command, Outcome, Ranges, Subject, Wish
from heliograph.model.ledger import WHOLE_TOPIC
from heliograph.model.partition import TopicPartition
from heliograph.model.partition_status import PartitionStatus
from heliograph.model.policy import LinkPolicy
from heliograph.model.settings import Settings
from heliograph.model.states import PartitionState

from .judge import assert_identical
from .log_reader import Deadline, LogReader
from .plain_mirror import settings_for
from .plain_run import PlainRun
from .records import mixed_records
from .topics import create_topic, delete_records
from .workload import produce_records

ANSWER_LIMIT_S = 20.0


class Operator:
    def __init__(self, client: ClusterClient, source_cluster_id: str, topic: str) -> None:
        self._client = client
        self._ledger = Ledger(OwnTopics(client))
        self._source_cluster_id = source_cluster_id
        self._topic = topic

    async def topic_id(self) -> str:
        return (await self._client.read_metadata([self._topic])).topic_id(self._topic)

    async def command(
        self, wish: Wish, partition: int = 0, *, stop: str | None = None, loses: Ranges | None = None
    ) -> Command:
        await self._ledger.open()
        command = Command(
            id=uuid.uuid4().hex,
            wish=wish,
            subject=Subject(
                source_cluster_id=self._source_cluster_id,
                target_topic=self._topic,
                partition=WHOLE_TOPIC if wish is Wish.REMIRROR else partition,
            ),
            at=time_of_day(),
            author=getpass.getuser(),
            target_topic_id=await self.topic_id(),
            stop=stop,
            loses=loses or {},
        )
        await self._ledger.command([command])
        return command

    @property
    def _recorded(self) -> Recorded:
        return Recorded(self._ledger.state, self._ledger.commands, self._source_cluster_id)

    async def stop_code(self, partition: int = 0) -> str | None:
        """Of the stop that is written down."""
        await self._ledger.open()
        stop = self._recorded.stop(TopicPartition(self._topic, partition), await self.topic_id())
        return stop.code if stop is not None else None

    async def answer(self, command: Command) -> Answer:
        """The last word on it."""
        recorded = self._recorded
        async with asyncio.timeout(ANSWER_LIMIT_S):
            while True:
                await self._ledger.catch_up()
                answer = recorded.answer(command)
                if answer is not None and answer.outcome is not Outcome.UNDER_WAY:
                    return answer
                await asyncio.sleep(0.05)


class Scene:
    def __init__(self, source: LabCluster, target: LabCluster, topic: str, partitions: int = 2) -> None:
        self.source, self.target, self.topic = source.bootstrap_servers, target.bootstrap_servers, topic
        create_topic(self.source, topic, partitions)

    def settings(self, **policy: Any) -> Settings:
        settings = settings_for(self.source, self.target, [self.topic], policy=LinkPolicy(**policy))
        # A link of its own: what is written down of one is not another's.
        return replace(settings, links=(replace(settings.links[0], name=f"link-of-{self.topic}"),))

    def write(self, count: int, *, seed: int = 0, partition: int = 0, first_ms: int | None = None) -> None:
        """Fresh ones, unless told otherwise: old ones wait after a run that was killed."""
        records = mixed_records(
            seed, count, first_ms=int(time.time() * 1000) if first_ms is None else first_ms
        )
        produce_records(self.source, self.topic, list(records), partition=partition)

    def write_to_target(self) -> None:
        producer = Producer({"bootstrap.servers": self.target})
        producer.produce(self.topic, b"not of the mirror", partition=0)
        assert producer.flush(30) == 0

    def lose(self, before_offset: int, partition: int = 0) -> None:
        delete_records(self.source, self.topic, partition, before_offset=before_offset)

    def offsets(self, bootstrap: str, partition: int = 0) -> list[int]:
        with LogReader(bootstrap, Deadline.after(60.0)) as reader:
            bounds = reader.bounds(self.topic, partition)
            return [record.offset for record in reader.records(self.topic, partition, bounds)]

    def assert_identical(self, records: int | None = None) -> None:
        assert_identical(self.source, self.target, [self.topic], records=records)

    @asynccontextmanager
    async def operator(self) -> AsyncIterator[Operator]:
        clients = [
            ClusterClient("it", parse_properties({"bootstrap.servers": servers}))
            for servers in (self.source, self.target)
        ]
        try:
            for client in clients:
                await client.connect()
            yield Operator(clients[1], clients[0].metadata.cluster_id, self.topic)
        finally:
            for client in clients:
                await client.aclose()


def row_of(run: PlainRun, partition: int = 0) -> PartitionStatus:
    return next(row for row in run.rows if row.partition.partition == partition)


def stopped(run: PlainRun) -> bool:
    return bool(run.rows) and row_of(run).state is PartitionState.STOPPED
