"""How long records take from a producer at the source to a consumer at the target, partition by partition.

Owns a thread that produces stamped records at a steady pace and one that consumes them. Must not know the mirror nor
what happens to the clusters meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

from confluent_kafka import Consumer, TopicPartition

from .records import Record
from .workload import ConfirmedProducer

TICK_S = 0.1
# A broker that hangs is left soon for who leads in its place.
IMPATIENT = {"socket.timeout.ms": 2_000, "topic.metadata.refresh.interval.ms": 1_000}
PRODUCER = {"linger.ms": 0, **IMPATIENT}
CONSUMER = {
    **IMPATIENT,
    "group.id": "latency-watch",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "fetch.wait.max.ms": 100,
    "fetch.error.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
}

Where = tuple[str, int]


class Arrival(NamedTuple):
    """By the machine's one monotonic clock."""

    where: Where
    sent_at: float
    arrived_at: float

    @property
    def took_s(self) -> float:
        return self.arrived_at - self.sent_at


class LatencyWatch:
    """One record per partition and tick, of so many bytes at least, from entering the context to `stop`."""

    def __init__(self, source: str, target: str, wheres: Sequence[Where], size_bytes: int = 0) -> None:
        self.arrivals: list[Arrival] = []
        self.sent = 0
        self._wheres = list(wheres)
        self._size_bytes = size_bytes
        # One for each topic: a broker answers a connection's requests in turn, and may wait for one's followers.
        self._producers = {topic: ConfirmedProducer(source, codec="none", **PRODUCER) for topic, _ in wheres}
        self._consumer: Any = Consumer({**CONSUMER, "bootstrap.servers": target})
        self._consumer.assign([TopicPartition(topic, number, 0) for topic, number in self._wheres])
        self._stop_sending, self._stop_reading = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self._send_all, self._read_all)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_sending.set()
        self._stop_reading.set()
        for thread in self._threads:
            thread.join()
        self._consumer.close()

    def stop(self) -> int:
        """Send no more; how many records are at the source."""
        self._stop_sending.set()
        self._threads[0].join()
        for producer in self._producers.values():
            producer.confirm()
        return sum(producer.confirmed for producer in self._producers.values())

    def took(self, wheres: Iterable[Where], since: float, until: float) -> list[float]:
        """Sorted, of the records sent in this time."""
        asked = set(wheres)
        return sorted(
            a.took_s for a in list(self.arrivals) if a.where in asked and since <= a.sent_at < until
        )

    def first_after(self, where: Where, sent_since: float) -> float | None:
        """When the first record that was sent since then arrived."""
        return min(
            (a.arrived_at for a in list(self.arrivals) if a.where == where and a.sent_at >= sent_since),
            default=None,
        )

    def _send_all(self) -> None:
        while not self._stop_sending.wait(TICK_S):
            for topic, number in self._wheres:
                stamp = b"%.6f" % time.monotonic()
                value = stamp.ljust(self._size_bytes)  # spaces, which are no part of a number
                record = Record(value=value, timestamp_ms=int(time.time() * 1000))
                self._producers[topic].send(topic, number, record)
                self.sent += 1

    def _read_all(self) -> None:
        while not self._stop_reading.is_set():
            for message in self._consumer.consume(500, 0.02):
                if message.error() is None:
                    where = (message.topic(), message.partition())
                    self.arrivals.append(Arrival(where, float(message.value()), time.monotonic()))
