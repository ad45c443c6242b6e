"""Releases of Kafka before ours: what librdkafka and Heliograph need to talk to each, and data as its clients write it.

Owns which release can do what. Must not know the mirror.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaException

from .records import Record
from .workload import ConfirmedProducer

Number = tuple[int, ...]
NO_API_VERSIONS: Number = (0, 10)
NO_CREATE_TOPICS: Number = (0, 10, 1)
NO_TRANSACTIONS: Number = (0, 11)
NO_ZSTD: Number = (2, 1)
CREATED_LIMIT_S = 30.0


def number_of(kafka: str) -> Number:
    return tuple(map(int, kafka.split(".")))


def librdkafka_settings(kafka: str) -> dict[str, Any]:
    """Brokers before 0.10 cannot be asked what they speak."""
    if number_of(kafka) >= NO_API_VERSIONS:
        return {}
    return {"api.version.request": False, "broker.version.fallback": kafka}


def heliograph_properties(kafka: str) -> dict[str, str]:
    if number_of(kafka) >= NO_API_VERSIONS:
        return {}
    return {"broker.version.fallback": kafka, "cluster.id": f"old-{kafka}"}


def codecs_of(kafka: str) -> list[str]:
    return ["none", "gzip", "snappy", "lz4", *(["zstd"] if number_of(kafka) >= NO_ZSTD else [])]


def produce_as(kafka: str, bootstrap: str, topic: str, records: Iterable[Record], codec: str) -> int:
    """To all partitions in turn, as a client of that release does: without what it has no place for."""
    plain = number_of(kafka) < NO_TRANSACTIONS
    settings = {**librdkafka_settings(kafka), **({"enable.idempotence": False} if plain else {})}
    # Small enough for a limit of 1,000,000 bytes, which brokers had before; large enough to be cut in a fetch.
    producer = ConfirmedProducer(
        bootstrap, codec=codec, **settings, **{"message.max.bytes": 980_000, "linger.ms": 50}
    )
    for number, record in enumerate(records):
        headers = () if plain else record.headers
        sent = Record(key=record.key, value=record.value, headers=headers, timestamp_ms=record.timestamp_ms)
        producer.send(topic, number % 2, sent)
    producer.confirm()
    return producer.confirmed


def create_by_asking(kafka: str, bootstrap: str, topic: str, partitions: int) -> None:
    """A topic that brokers make by themselves when they are asked for it (auto.create.topics.enable)."""
    client = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "allow.auto.create.topics": True,
            **librdkafka_settings(kafka),
        }
    )
    deadline = time.monotonic() + CREATED_LIMIT_S
    try:
        while not _has_leaders(client, topic, partitions):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{bootstrap} does not make topic {topic} in {CREATED_LIMIT_S:.0f} s")
            time.sleep(0.2)
    finally:
        client.close()


def _has_leaders(client: Any, topic: str, partitions: int) -> bool:
    try:
        found = client.list_topics(topic, timeout=10).topics[topic]
    except (
        KafkaException
    ):  # librdkafka 2.16 cannot read what brokers before 0.10 say of a topic without partitions
        return False
    led = [each for each in found.partitions.values() if each.leader >= 0 and each.error is None]
    return len(led) == partitions
