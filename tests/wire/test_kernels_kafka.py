"""Kernels and codecs against the peers themselves: what librdkafka and the Java client write is read and merged, and
what we write is taken by a broker and read by both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from heliograph.cluster.batch_source import BatchSource
from heliograph.cluster.batch_target import BatchTarget
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.line_name import LineName
from heliograph.cluster.properties import parse_properties
from heliograph.lab.cluster import LabCluster
from heliograph.model.partition import TopicPartition
from heliograph.wire.batch import Codec, read_header, rewrite, verify_crc
from heliograph.wire.compare import first_difference
from heliograph.wire.decode import decode
from heliograph.wire.kernels.loading import Kernels
from heliograph.wire.merge import merge
from heliograph.wire.produce import ProduceEntry
from heliograph.wire.runs import Run, split_runs
from tests.support.java_consumer import read_with_java
from tests.support.java_producer import produce_mixed_with_java
from tests.support.log_reader import SeenRecord, read_topic
from tests.support.records import mixed_records
from tests.support.topics import create_topic
from tests.support.workload import CODECS, ConfirmedProducer

from .logs import seen

pytestmark = pytest.mark.kafka

PRODUCER = {"producer_id": 0x48 << 56, "producer_epoch": 0}
BY_LIBRDKAFKA = 60  # records of each codec, in batches of 3
BY_JAVA = 500  # 100 of each codec, in batches of up to 16 KB
SMALL_BYTES = 32 << 10


def fill(bootstrap: str, topic: str) -> None:
    for seed, codec in enumerate(CODECS):
        settings = {"batch.num.messages": 3, "linger.ms": 20}
        producer = ConfirmedProducer(bootstrap, codec=codec, **settings)
        for record in mixed_records(seed, BY_LIBRDKAFKA):
            producer.send(topic, 0, record)
        producer.confirm()
    produce_mixed_with_java(bootstrap, topic, count=BY_JAVA, seed=9)


async def read_raw(source: BatchSource, topic: str, end: int) -> list[memoryview]:
    """The log as it is, as whole batches."""
    found = await source.batches_in(TopicPartition(topic, 0), 0, end)
    return [memoryview(bytearray(batch)) for batch in found.views]


def appends(kernels: Kernels, log: memoryview) -> list[memoryview]:
    """What goes out for it: runs merged, all else rewritten in place."""
    out = []
    waiting: list[Run] = list(split_runs(log, packed_bytes=SMALL_BYTES))
    while waiting:
        run = waiting[0]
        sequence = run.header.base_offset
        merged = merge(
            kernels, waiting, limit_bytes=100_000, max_records=10_000, base_sequence=sequence, **PRODUCER
        )
        if merged is not None:
            out.append(merged.batch)
            waiting = ([merged.rest] if merged.rest else []) + waiting[merged.runs + bool(merged.rest) :]
        else:
            verify_crc(run.header, run.view)
            rewrite(run.view, base_sequence=sequence, **PRODUCER)
            out.append(run.view)
            waiting = waiting[1:]
    return out


async def append_all(target: BatchTarget, topic: str, batches: list[memoryview]) -> None:
    leader = target.leader(TopicPartition(topic, 0))
    assert leader is not None
    line = await target.line_to(leader.node, LineName(0))
    for batch in batches:
        (answer,) = line.decode(await line.send([ProduceEntry(topic, 0, batch)], lambda: True)).partitions
        assert (answer.error, answer.message) == (0, "")
        assert answer.base_offset == read_header(batch).base_sequence


def as_seen(kernels: Kernels, batches: list[memoryview]) -> list[SeenRecord]:
    found = [each for batch in batches for each in seen(decode(kernels, batch))]
    return [SeenRecord(each[0], "CreateTime", *each[1:]) for each in found]


async def test_what_peers_write_is_merged_into_what_peers_read(
    kernels: Kernels, target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    bootstrap = target_cluster.bootstrap_servers
    topic, copy = unique_topic("written"), unique_topic("merged")
    for name in (topic, copy):
        await asyncio.to_thread(create_topic, bootstrap, name)
    await asyncio.to_thread(fill, bootstrap, topic)
    [written] = await asyncio.to_thread(read_topic, bootstrap, topic)
    assert len(written) == len(CODECS) * BY_LIBRDKAFKA + BY_JAVA
    client = ClusterClient("target", parse_properties({"bootstrap.servers": bootstrap}))
    client.follow([topic, copy])
    await client.connect()
    try:
        source = BatchSource(client, "link")
        log = await read_raw(source, topic, len(written))
        assert as_seen(kernels, log) == written
        assert {read_header(batch).codec for batch in log} == set(Codec)
        out = appends(kernels, memoryview(bytearray(b"".join(log))))
        assert len(out) < len(log) / 2
        assert {read_header(batch).codec for batch in out} == set(Codec)
        await append_all(BatchTarget(client, "link"), copy, out)
        merged = await read_raw(source, copy, len(written))
        assert first_difference(kernels, log, merged, first_offset=0, next_offset=len(written)) is None
    finally:
        await client.aclose()
    assert [written] == await asyncio.to_thread(read_topic, bootstrap, copy)
    assert written == await asyncio.to_thread(lambda: read_with_java(bootstrap, copy, count=len(written)))
