"""Fills a topic through an independent client, in batches of as many records as the recipe says.

Owns the producer's settings. Must not know what is in the records.
"""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Producer

from bench.clusters import QUIET, BenchCluster
from bench.workload import Produced, Recipe, Say

SAY_EVERY_S = 5.0
LOOK_EVERY_RECORDS = 500
FLUSH_LIMIT_S = 120
SETTINGS = {
    **QUIET,
    "batch.size": 1_000_000,
    "message.max.bytes": 2_000_000,
    "linger.ms": 500,  # a batch leaves when it is full, not before
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 256 * 1024,
}


def fill_batches(cluster: BenchCluster, recipe: Recipe, records: int, say: Say) -> Produced:
    producer = Producer(
        {
            **SETTINGS,
            "bootstrap.servers": cluster.bootstrap_servers,
            "compression.type": recipe.codec,
            "batch.num.messages": recipe.records_per_batch,
        }
    )
    make = recipe.values()
    size_bytes = 0
    spoken_at = time.monotonic()
    for number in range(records):
        value = make(number)
        size_bytes += len(value)
        partition = number // recipe.records_per_batch % recipe.partitions
        send(producer, recipe.name, value=value, key=str(number), partition=partition)
        if number % LOOK_EVERY_RECORDS == 0 and time.monotonic() - spoken_at > SAY_EVERY_S:
            spoken_at = time.monotonic()
            say(f"{number:,} of {records:,} records produced")
    left = producer.flush(FLUSH_LIMIT_S)
    assert left == 0, f"{left} records could not be produced"
    return Produced(records, size_bytes)


def send(producer: Any, topic: str, **record: Any) -> None:
    """Waits while the producer's buffers are full."""
    while True:
        try:
            producer.produce(topic, **record)
            return
        except BufferError:
            producer.poll(0.05)
