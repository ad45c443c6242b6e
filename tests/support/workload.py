"""Workloads by librdkafka: every codec, transactions, explicit partitions; each returns only when confirmed.

Owns how records get onto a cluster. Must not know what is in them (records.py) nor the mirror.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Producer

from .records import Record, mixed_records
from .topics import partition_count

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
STRETCH_RECORDS = 100  # so many neighbours go to one codec, then the next: batches of all kinds lie mixed
SETTINGS = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 5,
    "message.max.bytes": 1_040_000,  # under the broker's 1,048,588 with room for a batch's frame
}
FLUSH_TIMEOUT_S = 120.0
FULL_WAIT_S = 0.1


class Undelivered(Exception):
    """A workload did not get all its records onto the cluster."""


class ConfirmedProducer:
    """A producer that counts what the cluster confirmed, and raises what it refused."""

    def __init__(self, bootstrap: str, *, codec: str = "none", **settings: Any) -> None:
        chosen = {"bootstrap.servers": bootstrap, "compression.type": codec, **SETTINGS, **settings}
        self.client: Any = Producer(chosen)
        self.confirmed = 0
        self._refused: list[str] = []

    def send(self, topic: str, partition: int, record: Record) -> None:
        while True:
            try:
                self.client.produce(
                    topic,
                    partition=partition,
                    key=record.key,
                    value=record.value,
                    headers=list(record.headers),
                    timestamp=record.timestamp_ms,
                    on_delivery=self._delivered,
                )
            except BufferError:  # its queue is full: deliveries make room
                self.client.poll(FULL_WAIT_S)
            else:
                self.client.poll(0)
                return

    def confirm(self, timeout_s: float = FLUSH_TIMEOUT_S) -> None:
        """Returns when everything sent is on the cluster."""
        waiting = self.client.flush(timeout_s)
        if self._refused:
            raise Undelivered(f"{len(self._refused)} records refused, first: {self._refused[0]}")
        if waiting:
            raise Undelivered(f"{waiting} records unconfirmed after {timeout_s:g} s")

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.confirmed += 1
        else:
            self._refused.append(f"{message.topic()}[{message.partition()}]: {error}")


def produce_records(
    bootstrap: str,
    topic: str,
    records: Iterable[Record],
    *,
    partition: int = 0,
    codec: str = "none",
    settings: Mapping[str, Any] | None = None,
) -> int:
    """Sends records in order to one partition; returns their number. `settings`: librdkafka's (client_access.py)."""
    producer = ConfirmedProducer(bootstrap, codec=codec, **(settings or {}))
    for record in records:
        producer.send(topic, partition, record)
    producer.confirm()
    return producer.confirmed


def produce_mixed(bootstrap: str, *topics: str, count: int, seed: int = 0) -> int:
    """`count` mixed records to each topic, over all partitions and codecs; returns the number of all."""
    producers = [ConfirmedProducer(bootstrap, codec=codec) for codec in CODECS]
    for nth, topic in enumerate(topics):
        partitions = partition_count(bootstrap, topic)
        for number, record in enumerate(mixed_records(seed + nth, count)):
            stretch = number // STRETCH_RECORDS
            producers[stretch % len(producers)].send(topic, number % partitions, record)
    for producer in producers:
        producer.confirm()
    return sum(producer.confirmed for producer in producers)


def produce_transaction(
    bootstrap: str,
    topic: str,
    records: Iterable[Record],
    *,
    commit: bool = True,
    partition: int = 0,
    codec: str = "none",
) -> int:
    """One transaction on one partition. An aborted one has been in the log before it was aborted."""
    producer = ConfirmedProducer(bootstrap, codec=codec, **{"transactional.id": f"test-{uuid.uuid4().hex}"})
    producer.client.init_transactions(FLUSH_TIMEOUT_S)
    producer.client.begin_transaction()
    for record in records:
        producer.send(topic, partition, record)
    producer.confirm()
    if commit:
        producer.client.commit_transaction(FLUSH_TIMEOUT_S)
    else:
        producer.client.abort_transaction(FLUSH_TIMEOUT_S)
    return producer.confirmed
