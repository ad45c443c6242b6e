"""A steady trickle of records into the source, and the delays with which they arrive on the target.

Owns pacing, stamps and both clients. They share this process and so its clock. Must not know what mirrors.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.clusters import QUIET
from bench.contender import CopyJob

RECORDS_PER_S = 500
PARTITIONS = 4  # the first ones of the job's first topic
LAST_ARRIVAL_S = 10.0
PADDING = b"." * 700
STAMP_DIGITS = 20


class Trickle:
    """Sends records one by one, evenly over the partitions, each with the time of its sending."""

    def __init__(self, bootstrap_servers: str, job: CopyJob) -> None:
        self._topic = job.topics[0]
        self._number = 0
        self._producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "linger.ms": 0, "socket.nagle.disable": True, **QUIET}
        )

    def send(self) -> None:
        self._number += 1
        stamp = b"%0*d" % (STAMP_DIGITS, time.monotonic_ns())
        self._producer.produce(self._topic, value=stamp + PADDING, partition=self._number % PARTITIONS)
        self._producer.poll(0)

    def send_for(self, seconds: float) -> int:
        records = int(seconds * RECORDS_PER_S)
        began = time.monotonic()
        for number in range(records):
            wait_s = began + number / RECORDS_PER_S - time.monotonic()
            if wait_s > 0:
                time.sleep(wait_s)
            self.send()
        self._producer.flush(LAST_ARRIVAL_S)
        return records


class Arrivals:
    """Reads the target in a thread and keeps (sent, delay) of everything sent since it began."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._ended = threading.Event()
        self._since_ns = time.monotonic_ns()
        self._seen: list[tuple[int, float]] = []
        self._thread = threading.Thread(target=self._read, name="arrivals", daemon=True)
        self._thread.start()

    @property
    def count(self) -> int:
        return len(self._seen)

    def wait_for(self, records: int, from_ns: int) -> list[float]:
        """Delays of the records sent since then, when all arrived or no more are waited for."""
        deadline = time.monotonic() + LAST_ARRIVAL_S
        while True:
            delays_ms = [delay_ms for sent_ns, delay_ms in list(self._seen) if sent_ns >= from_ns]
            if len(delays_ms) >= records or time.monotonic() > deadline:
                return delays_ms
            time.sleep(0.05)

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()
        self._consumer.close()

    def _read(self) -> None:
        while not self._ended.is_set():
            message = self._consumer.poll(0.1)
            now_ns = time.monotonic_ns()
            if message is None or message.error():
                continue
            sent_ns = int(message.value()[:STAMP_DIGITS])
            if sent_ns >= self._since_ns:  # others are of a round before, whose source topic stays
                self._seen.append((sent_ns, (now_ns - sent_ns) / 1e6))


@contextmanager
def arrivals_of(job: CopyJob, bootstrap_servers: str) -> Iterator[Arrivals]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            **QUIET,
            "group.id": f"bench-{job.label}",  # never joined: partitions are assigned
            "enable.auto.commit": False,
            "fetch.min.bytes": 1,
            "fetch.wait.max.ms": 20,
            "socket.nagle.disable": True,
        }
    )
    consumer.assign([TopicPartition(job.target_topics[0], each, 0) for each in range(PARTITIONS)])
    arrivals = Arrivals(consumer)
    try:
        yield arrivals
    finally:
        arrivals.stop()
