"""How long the first record of a log that starts far above 0 takes.

Such a source is made as a mirror's target is: of fillers that are deleted again. One record follows them.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from confluent_kafka import Producer, TopicPartition

from bench.clusters import QUIET, ClusterPair, Leader
from bench.lanes import job_of, running_lane
from bench.raw_produce import begin, confirm, connection_to, produce_request
from heliograph.wire.filler import MOST_RECORDS, filler_batch
from heliograph.wire.produce import ProduceEntry

IN_FLIGHT = 4
NO_PRODUCER = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1}


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentTime:
    """From when the lane got the partitions to the first record of each on the target."""

    partitions: int
    offsets: int  # of each
    seconds: float
    offsets_per_s: float


async def measure_alignment(pair: ClusterPair, *, partitions: int, offsets: int) -> AlignmentTime:
    topic = f"start-{offsets}"
    pair.source.create(topic, partitions=partitions)
    make_log_start(pair, topic, offsets)
    began = time.monotonic()
    async with running_lane(job_of(pair, topic, partitions=partitions)) as lane:
        await lane.until(lambda: all((copy.next_offset or 0) > offsets for copy in lane.copies))
        seconds = time.monotonic() - began
    return AlignmentTime(
        partitions=partitions,
        offsets=offsets,
        seconds=seconds,
        offsets_per_s=partitions * offsets / seconds,
    )


def make_log_start(pair: ClusterPair, topic: str, offsets: int) -> None:
    """Each partition begins there and holds one record."""
    led = [(leader, each) for leader, some in pair.source.leaders(topic).items() for each in some]
    with ThreadPoolExecutor(len(led)) as pool:
        for work in [pool.submit(_fill, leader, topic, each, offsets) for leader, each in led]:
            work.result()
    cuts = [TopicPartition(topic, each, offsets) for _, each in led]
    for cut in pair.source.admin.delete_records(cuts).values():
        cut.result()
    producer = Producer({"bootstrap.servers": pair.source.bootstrap_servers, **QUIET})
    for _, each in led:
        producer.produce(topic, value=b"first", partition=each)
    assert producer.flush(30) == 0, "the first records could not be produced"


def _fill(leader: Leader, topic: str, partition: int, offsets: int) -> None:
    full, rest = divmod(offsets, MOST_RECORDS)
    in_flight = 0
    with connection_to(leader) as connection:
        begin(connection, [partition], lambda _: _request(topic, partition, rest or MOST_RECORDS))
        for _ in range(full if rest else full - 1):
            connection.sendall(_request(topic, partition, MOST_RECORDS))
            in_flight += 1
            if in_flight == IN_FLIGHT:
                confirm(connection)
                in_flight -= 1
        for _ in range(in_flight):
            confirm(connection)


def _request(topic: str, partition: int, count: int) -> bytes:
    batch = filler_batch(count, timestamp_ms=time.time_ns() // 1_000_000, **NO_PRODUCER)
    return produce_request([ProduceEntry(topic, partition, memoryview(batch))])
