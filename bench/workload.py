"""What is copied: JSON records that compress like real ones, and a backlog of large random ones.

Owns the records' shape and the producer's settings. Must not know who copies them. Values are cut from one pool of
random text: lz4 finds nothing in it, so the share of random text in a record sets how well it compresses.
"""

from __future__ import annotations

import os
import random
import string
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Producer

from bench.clusters import QUIET, BenchCluster

RECORDS_PER_BATCH = 270
PARTITIONS = 4
LARGE_RECORD_BYTES = 900 * 1024
BACKLOG_PARTITIONS = 500
SAY_EVERY_S = 5.0

POOL_CHARACTERS = 16_000_000
RANDOM_CHARACTERS = 390
SHAPE = (
    '{"id":"%010d","type":"order.placed","schema":"com.example.orders.v3","region":"eu-central-1","currency":"EUR",'
    '"customer":{"id":"%s","segment":"returning","newsletter":false},"status":"confirmed","channel":"web-shop",'
    '"items":[{"sku":"%s","quantity":1,"unit":"piece"}],"address":"%s","payment":{"method":"card","captured":true},'
    '"trace":"%s"}'
)
CUTS = (0, 40, 100, 220, RANDOM_CHARACTERS)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A topic that was filled before anything is measured. `size_bytes` is what travels: batches as stored."""

    topic: str
    partitions: int
    records: int
    value_bytes: int
    size_bytes: int


class OrderValues:
    """Makes the JSON value of record n."""

    def __init__(self, seed: int = 1, pool_characters: int = POOL_CHARACTERS) -> None:
        self._random = random.Random(seed)
        letters = (string.ascii_letters + string.digits + "+/").encode()
        table = bytes(letters[byte % len(letters)] for byte in range(256))
        self._pool = self._random.randbytes(pool_characters).translate(table).decode()
        self._last_start = pool_characters - RANDOM_CHARACTERS

    def value(self, number: int) -> str:
        start = int(self._random.random() * self._last_start)
        text = self._pool[start : start + RANDOM_CHARACTERS]
        a, b, c, d, e = CUTS
        return SHAPE % (number, text[a:b], text[b:c], text[c:d], text[d:e])


def fill(cluster: BenchCluster, *, topic: str, records: int, say: Say) -> Workload:
    """Produces the copy's workload: lz4 batches of 270 records each."""
    cluster.create(topic, PARTITIONS)
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            **QUIET,
            "compression.type": "lz4",
            "batch.num.messages": RECORDS_PER_BATCH,
            "batch.size": 1_000_000,
            "linger.ms": 500,  # a batch leaves when it is full, not before
            "queue.buffering.max.messages": 200_000,
            "queue.buffering.max.kbytes": 256 * 1024,
        }
    )
    values = OrderValues()
    size_bytes = 0
    spoken_at = time.monotonic()
    for number in range(records):
        value = values.value(number)
        size_bytes += len(value)
        partition = number // RECORDS_PER_BATCH % PARTITIONS
        _send(producer, topic, value=value, key=str(number), partition=partition)
        if number % 1000 == 0 and time.monotonic() - spoken_at > SAY_EVERY_S:
            spoken_at = time.monotonic()
            say(f"{number:,} of {records:,} records produced")
    _flush(producer)
    return _filled(cluster, topic, PARTITIONS, records, size_bytes)


def fill_backlog(cluster: BenchCluster, *, topic: str, size_bytes: int, say: Say) -> Workload:
    """Produces large records of random bytes, uncompressed, over many partitions."""
    cluster.create(topic, BACKLOG_PARTITIONS)
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            **QUIET,
            "compression.type": "none",
            "linger.ms": 0,
            "message.max.bytes": 2_000_000,
            "queue.buffering.max.kbytes": 64 * 1024,
        }
    )
    records = max(size_bytes // LARGE_RECORD_BYTES, 1)
    for number in range(records):
        _send(producer, topic, value=os.urandom(LARGE_RECORD_BYTES), partition=number % BACKLOG_PARTITIONS)
        if number % 500 == 499:
            say(f"{number + 1:,} of {records:,} large records produced")
    _flush(producer)
    return _filled(cluster, topic, BACKLOG_PARTITIONS, records, records * LARGE_RECORD_BYTES)


def _send(producer: Any, topic: str, **record: Any) -> None:
    while True:
        try:
            producer.produce(topic, **record)
            return
        except BufferError:
            producer.poll(0.05)


def _flush(producer: Any) -> None:
    left = producer.flush(120)
    assert left == 0, f"{left} records could not be produced"


def _filled(cluster: BenchCluster, topic: str, partitions: int, records: int, value_bytes: int) -> Workload:
    return Workload(
        topic=topic,
        partitions=partitions,
        records=records,
        value_bytes=value_bytes,
        size_bytes=cluster.size_bytes(topic),
    )
