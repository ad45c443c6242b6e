"""A topic as Kafka's own Java consumer sees it, driven through py4j. For hundreds of records: each is some calls."""

from __future__ import annotations

from typing import Any

from .java_producer import java
from .log_reader import SeenRecord

DESERIALIZER = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
POLL_MS = 10_000


def read_with_java(bootstrap: str, topic: str, *, count: int) -> list[SeenRecord]:
    """The first `count` records of partition 0."""
    seen: list[SeenRecord] = []
    with java() as jvm:
        settings = jvm.java.util.HashMap()
        for name, value in {
            "bootstrap.servers": bootstrap,
            "key.deserializer": DESERIALIZER,
            "value.deserializer": DESERIALIZER,
            "check.crcs": True,
        }.items():
            settings.put(name, value)
        consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings)
        partition = jvm.org.apache.kafka.common.TopicPartition(topic, 0)
        where = jvm.java.util.ArrayList()
        where.add(partition)
        consumer.assign(where)
        consumer.seekToBeginning(where)
        while len(seen) < count:
            records = consumer.poll(jvm.java.time.Duration.ofMillis(POLL_MS))
            assert records.count(), f"nothing more after {len(seen)} records of {count}"
            seen.extend(map(_seen, records.records(partition)))
        consumer.close()
    return seen


def _seen(record: Any) -> SeenRecord:
    headers = tuple((header.key(), header.value()) for header in record.headers().toArray())
    kind = record.timestampType().toString()
    return SeenRecord(record.offset(), kind, record.timestamp(), record.key(), record.value(), headers)
