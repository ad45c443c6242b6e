"""The model's fetch sessions answer as a real broker's do: one script is sent to both, and every answer compared."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

import pytest

from heliograph.cluster.client import CONTROL, ClusterClient
from heliograph.cluster.fetches import fetch
from heliograph.cluster.properties import parse_properties
from heliograph.lab.cluster import LabCluster
from heliograph.wire.fetch import FetchedPartition, FetchReply, FetchWant
from heliograph.wire.fetch_request import FIRST_EPOCH, LAST_EPOCH, FetchAsk
from tests.support.model_sessions import ModelSessions
from tests.support.records import Record
from tests.support.topics import create_topic
from tests.support.workload import ConfirmedProducer

pytestmark = pytest.mark.kafka

PARTITIONS = 4
STEPS = 150
LARGE = 1 << 20
Seen = tuple[object, ...]


class Step(NamedTuple):
    """`grows`: which partitions get one more record first. `wants`: partitions and from which offset."""

    grows: tuple[int, ...]
    wants: dict[int, int]
    forgotten: tuple[int, ...]
    kind: str


def script(seed: int) -> list[Step]:
    chance = random.Random(seed)
    kinds = ["goes on"] * 12 + ["begins", "without a session", "wrong epoch", "unknown session"]
    ends = dict.fromkeys(range(PARTITIONS), 1)
    everything = tuple(range(PARTITIONS))
    # What can be written to can be read: a broker that has not heard of a new topic yet refuses fetches.
    steps = [Step(everything, dict.fromkeys(everything, 0), (), "begins")]
    for _ in range(STEPS):
        grows = tuple(p for p in range(PARTITIONS) if chance.random() < 0.25)
        for partition in grows:
            ends[partition] += 1
        wants = {p: chance.randint(0, ends[p]) for p in range(PARTITIONS) if chance.random() < 0.4}
        forgotten = tuple(p for p in range(PARTITIONS) if chance.random() < 0.2)
        kind = chance.choice(kinds)
        if kind in ("begins", "without a session"):
            wants, forgotten = wants or {0: 0}, ()
        steps.append(Step(grows, wants, forgotten, kind))
    return steps


class Side:
    """One of the two that are compared: it knows the number and epoch of its own session."""

    def __init__(self) -> None:
        self.number, self.epoch = 0, FIRST_EPOCH

    def ask(self, step: Step, want: Callable[[int, int], FetchWant], names: dict[bytes, str]) -> FetchAsk:
        number, epoch = {
            "goes on": (self.number, self.epoch),
            "begins": (self.number, FIRST_EPOCH),
            "without a session": (self.number, LAST_EPOCH),
            "wrong epoch": (self.number, self.epoch + 7),
            "unknown session": (self.number ^ 0x5A5A5A5, 5),
        }[step.kind]
        wants = [want(partition, offset) for partition, offset in step.wants.items()]
        return FetchAsk(wants, [want(partition, 0) for partition in step.forgotten], number, epoch, names)

    def take(self, step: Step, reply: FetchReply) -> Seen:
        if not reply.error:
            going = step.kind == "goes on" and self.epoch != FIRST_EPOCH
            self.epoch = 0 if not reply.session_id else self.epoch + 1 if going else 1
            self.number = reply.session_id
        rows = [(p.partition, p.error, p.high_watermark, bool(p.records)) for p in reply.partitions]
        return step, reply.error, bool(reply.session_id) and not reply.error, rows


@pytest.mark.parametrize("seed", [1, 2])
async def test_sessions_answer_as_a_real_brokers_do(
    source_cluster: LabCluster, unique_topic: Callable[[str], str], seed: int
) -> None:
    bootstrap, topic = source_cluster.bootstrap_servers, unique_topic("model-sessions")
    await asyncio.to_thread(create_topic, bootstrap, topic, PARTITIONS)
    client = ClusterClient("real", parse_properties({"bootstrap.servers": bootstrap}))
    client.follow([topic])
    await client.connect()
    topic_id = UUID(client.metadata.topic_id(topic)).bytes
    (node,) = client.metadata.brokers
    producer, ends = ConfirmedProducer(bootstrap), dict.fromkeys(range(PARTITIONS), 0)
    model, ours, theirs = ModelSessions(), Side(), Side()

    def want(partition: int, offset: int) -> FetchWant:
        return FetchWant(topic, partition, offset, LARGE, topic_id=topic_id)

    def read(asked: FetchWant) -> FetchedPartition:
        end = ends[asked.partition]
        records = memoryview(b"r" if asked.next_offset < end else b"")
        return FetchedPartition(topic, asked.partition, 0, end, end, 0, -1, records, None, None)

    try:
        for step in script(seed):
            for partition in step.grows:
                producer.send(topic, partition, Record(value=b"v"))
                ends[partition] += 1
            await asyncio.to_thread(producer.confirm)
            if not step.wants and step.kind == "goes on" and ours.epoch == FIRST_EPOCH:
                continue  # nobody asks for nothing
            opened = model.open(ours.ask(step, want, {topic_id: topic}))
            reply = opened if isinstance(opened, FetchReply) else opened.reply(map(read, opened.wants))
            real = await fetch(
                client,
                node,
                CONTROL,
                theirs.ask(step, want, {topic_id: topic}),
                min_bytes=0,
                max_bytes=LARGE,
                max_wait_ms=0,
                read_committed=False,
            )
            assert ours.take(step, reply) == theirs.take(step, real)
    finally:
        await client.aclose()
