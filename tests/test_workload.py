"""The workloads put on a real cluster exactly the records they say, in every codec, by both clients."""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import KafkaException

from heliograph.lab.cluster import LabCluster
from tests.support.java_producer import produce_mixed_with_java
from tests.support.judge import assert_identical
from tests.support.log_reader import SeenRecord, read_topic
from tests.support.records import LARGE_BYTES, LARGE_RECORDS, Record, mixed_records
from tests.support.steady_producer import SteadyProducer
from tests.support.topics import create_topic, delete_topic, partition_count
from tests.support.workload import Undelivered, produce_mixed, produce_records, produce_transaction

COUNT = 1_000  # two stretches of each codec
EVERY_CODEC = {0, 1, 2, 3, 4}
TopicNames = Callable[[str], str]


def as_sent(seen: SeenRecord) -> Record:
    return Record(key=seen.key, value=seen.value, headers=seen.headers, timestamp_ms=seen.timestamp_ms)


def batch_headers(cluster: LabCluster, topic: str) -> Iterator[tuple[int, int]]:
    """Codec and number of records of each batch, from the brokers' own files."""
    for path in sorted(cluster.directory.glob(f"node-*/data/{topic}-*/*.log")):
        yield from _batches_of(path)


def _batches_of(path: Path) -> Iterator[tuple[int, int]]:
    data, at = path.read_bytes(), 0
    while at + 61 <= len(data):
        (length,) = struct.unpack_from(">i", data, at + 8)
        if length == 0:
            return  # space the broker reserved
        (attributes,) = struct.unpack_from(">h", data, at + 21)
        (records,) = struct.unpack_from(">i", data, at + 57)
        yield attributes & 7, records
        at += 12 + length


def test_the_same_seed_makes_the_same_records() -> None:
    assert list(mixed_records(7, 200)) == list(mixed_records(7, 200))
    assert list(mixed_records(7, 200)) != list(mixed_records(8, 200))


def test_mixed_records_hold_every_kind() -> None:
    records = list(mixed_records(1, 500))
    headers = {header for record in records for header in record.headers}
    timestamps = [record.timestamp_ms for record in records]
    assert {None, b""} <= {record.key for record in records}
    assert {None, b""} <= {record.value for record in records}
    assert {("null", None), ("empty", b"")} <= headers
    assert any(len(record.headers) > len(dict(record.headers)) for record in records)
    assert any(not record.headers for record in records)
    assert timestamps != sorted(timestamps)
    assert sum(len(record.value or b"") == LARGE_BYTES for record in records) == LARGE_RECORDS


@pytest.mark.kafka
@pytest.mark.parametrize("produce", [produce_mixed, produce_mixed_with_java])
def test_mixed_records_arrive_as_made_in_every_codec(
    source_cluster: LabCluster, unique_topic: TopicNames, produce: Callable[..., int]
) -> None:
    bootstrap, topic = source_cluster.bootstrap_servers, unique_topic("mixed")
    create_topic(bootstrap, topic, partitions=3)
    assert produce(bootstrap, topic, count=COUNT, seed=5) == COUNT
    partitions = read_topic(bootstrap, topic)
    expected = list(mixed_records(5, COUNT))
    for partition, seen in enumerate(partitions):
        assert {record.timestamp_type for record in seen} == {"CreateTime"}
        assert Counter(map(as_sent, seen)) == Counter(expected[partition::3])
    batches = list(batch_headers(source_cluster, topic))
    assert {codec for codec, _ in batches} == EVERY_CODEC
    assert {codec for codec, records in batches if records > 1} == EVERY_CODEC


@pytest.mark.kafka
def test_both_clients_make_logs_that_the_judge_calls_identical(
    source_cluster: LabCluster, target_cluster: LabCluster, unique_topic: TopicNames
) -> None:
    topic = unique_topic("both-clients")
    for cluster, produce in ((source_cluster, produce_mixed), (target_cluster, produce_mixed_with_java)):
        create_topic(cluster.bootstrap_servers, topic, partitions=2)
        # One stretch, so one codec: the order of records is then the same for both.
        assert produce(cluster.bootstrap_servers, topic, count=100, seed=9) == 100
    assert_identical(source_cluster.bootstrap_servers, target_cluster.bootstrap_servers, [topic], records=100)


@pytest.mark.kafka
def test_the_java_workload_leaves_no_process(source_cluster: LabCluster, unique_topic: TopicNames) -> None:
    bootstrap, topic = source_cluster.bootstrap_servers, unique_topic("java-ends")
    create_topic(bootstrap, topic)
    before = {child.pid for child in psutil.Process(os.getpid()).children(recursive=True)}
    assert produce_mixed_with_java(bootstrap, topic, count=10) == 10
    after = {child.pid for child in psutil.Process(os.getpid()).children(recursive=True)}
    assert after <= before


@pytest.mark.kafka
def test_a_refused_record_is_raised(source_cluster: LabCluster, unique_topic: TopicNames) -> None:
    bootstrap, topic = source_cluster.bootstrap_servers, unique_topic("refusing")
    create_topic(bootstrap, topic, configs={"max.message.bytes": "1000"})
    with pytest.raises(Undelivered, match="1 records refused"):
        produce_records(bootstrap, topic, [Record(value=bytes(2_000))])
    with pytest.raises(Undelivered, match="RecordTooLargeException"):
        produce_mixed_with_java(bootstrap, topic, count=100)


@pytest.mark.kafka
def test_only_committed_transactions_are_seen_and_aborted_ones_leave_offsets(
    source_cluster: LabCluster, unique_topic: TopicNames
) -> None:
    bootstrap, topic = source_cluster.bootstrap_servers, unique_topic("transactions")
    create_topic(bootstrap, topic)
    records = list(mixed_records(2, 10))
    assert produce_transaction(bootstrap, topic, records[:4], codec="zstd") == 4
    assert produce_transaction(bootstrap, topic, records, commit=False) == 10
    assert produce_transaction(bootstrap, topic, records[4:]) == 6
    (seen,) = read_topic(bootstrap, topic)
    assert [as_sent(record) for record in seen] == records
    # 4 records, marker, 10 aborted, marker, 6 records, marker
    assert [record.offset for record in seen] == [*range(4), *range(16, 22)]


@pytest.mark.kafka
def test_topics_are_made_with_their_settings_and_go_again(
    source_cluster: LabCluster, unique_topic: TopicNames
) -> None:
    bootstrap, topic = source_cluster.bootstrap_servers, unique_topic("made")
    create_topic(bootstrap, topic, 4, configs={"cleanup.policy": "compact"})
    assert partition_count(bootstrap, topic) == 4
    with pytest.raises(KafkaException, match="already exists"):
        create_topic(bootstrap, topic)
    delete_topic(bootstrap, topic)
    with pytest.raises(LookupError, match=topic):
        partition_count(bootstrap, topic)


@pytest.mark.kafka
@pytest.mark.faults
def test_a_steady_producer_outlives_its_broker_and_counts_what_is_there(unique_topic: TopicNames) -> None:
    topic = unique_topic("steady")
    with LabCluster.start(name="steady") as cluster:
        create_topic(cluster.bootstrap_servers, topic, partitions=2)
        with SteadyProducer(cluster.bootstrap_servers, topic, rate_per_s=300) as steady:
            steady.wait_for(200)
            cluster.brokers[0].kill()
            cluster.brokers[0].start()
            steady.wait_for(steady.count + 200)
        partitions = read_topic(cluster.bootstrap_servers, topic)
    numbers = [[int(record.headers[0][1] or b"") for record in seen] for seen in partitions]
    assert steady.stop() == steady.count == sum(map(len, numbers)) >= 400
    assert numbers == [list(range(partition, steady.count, 2)) for partition in range(2)]
