"""The demo's records: written by kafka-python's own producer, so that not everything shown is ours."""

from __future__ import annotations

import json
import logging
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

TOPICS: Mapping[str, int] = {"orders": 4, "payments": 3, "clicks": 2}
_CITIES = ("Amsterdam", "Berlin", "Chicago", "Delhi", "Osaka", "Quito", "Tunis", "Zagreb")


def create_topics(bootstrap_servers: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    try:
        admin.create_topics(
            [NewTopic(name, num_partitions=count, replication_factor=1) for name, count in TOPICS.items()]
        )
    finally:
        admin.close()


def records(count: int, seed: int = 7) -> Iterator[tuple[str, bytes, bytes]]:
    """Topic, key and value."""
    chance = random.Random(seed)
    names = list(TOPICS)
    for number in range(count):
        value = {"id": number, "city": chance.choice(_CITIES), "cents": chance.randrange(100_000)}
        yield names[number % len(names)], str(number % 997).encode(), json.dumps(value).encode()


class Workload:
    """Writes `count` records from a process of its own, so that it slows nobody."""

    def __init__(self, bootstrap_servers: str, count: int) -> None:
        self._command = [sys.executable, "-m", __name__, bootstrap_servers, str(count)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL)

    def end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def failed(self) -> bool:
        return self._process is not None and self._process.poll() not in (None, 0)


def write(bootstrap_servers: str, count: int) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap_servers,
        linger_ms=20,
        batch_size=64_000,
        compression_type="gzip",
        acks="all",
    )
    try:
        for topic, key, value in records(count):
            producer.send(topic, key=key, value=value, headers=[("by", b"demo")])
        producer.flush()
    finally:
        producer.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    write(sys.argv[1], int(sys.argv[2]))
