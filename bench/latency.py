"""How long a record takes from its producer through source, mirror and target to a consumer, at a steady trickle.

Owns pacing, stamps and percentiles. Producer and consumer share this process and so its clock. Must not know what
kind of mirror tails the topic. Measuring begins when records come through, after a stretch that warms everything up.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.clusters import QUIET, ClusterPair
from bench.contender import Contender, CopyJob, Running
from bench.summary import percentile
from bench.workload import Say

RECORDS_PER_S = 500
WARM_UP_S = 5.0
MEASURED_S = 10.0
LIVE_LIMIT_S = 120.0
LAST_ARRIVAL_S = 10.0
PADDING = b"." * 700
STAMP_DIGITS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyResult:
    contender: str
    label: str
    sent: int
    arrived: int
    p50_ms: float
    p99_ms: float
    max_ms: float


def latency_once(contender: Contender, job: CopyJob, pair: ClusterPair, say: Say) -> LatencyResult:
    pair.source.create(job.topic, job.partitions)
    with tempfile.TemporaryDirectory(prefix=f"heliograph-bench-{job.label}-") as name:
        directory = Path(name)
        command = contender.prepare(job, pair, directory)
        with Running(contender, job, command, directory) as running:
            trickle = _Trickle(pair.source.bootstrap_servers, job)
            _wait_for_target(running, pair, job)
            with _arrivals(pair.target.bootstrap_servers, job) as arrivals:
                _wait_until_live(running, trickle, arrivals)
                say(f"records come through after {running.age_s:.1f} s; warming up")
                trickle.send_for(WARM_UP_S)
                from_ns = time.monotonic_ns()
                sent = trickle.send_for(MEASURED_S)
                delays_ms = arrivals.wait_for(sent, from_ns)
            running.check(float("inf"))
    if not delays_ms:
        raise running.failure(f"delivered none of {sent} records")
    return LatencyResult(
        contender=contender.code,
        label=job.label,
        sent=sent,
        arrived=len(delays_ms),
        p50_ms=percentile(delays_ms, 50),
        p99_ms=percentile(delays_ms, 99),
        max_ms=max(delays_ms),
    )


class _Trickle:
    """Sends records one by one, evenly over the partitions, each with the time of its sending."""

    def __init__(self, bootstrap_servers: str, job: CopyJob) -> None:
        self._topic = job.topic
        self._partitions = job.partitions
        self._number = 0
        self._producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "linger.ms": 0, "socket.nagle.disable": True, **QUIET}
        )

    def send(self) -> None:
        self._number += 1
        stamp = b"%0*d" % (STAMP_DIGITS, time.monotonic_ns())
        self._producer.produce(self._topic, value=stamp + PADDING, partition=self._number % self._partitions)
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


class _Arrivals:
    """Reads the target in a thread and keeps (sent, delay) of everything that arrives."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._ended = threading.Event()
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
            if message is not None and not message.error():
                sent_ns = int(message.value()[:STAMP_DIGITS])
                self._seen.append((sent_ns, (now_ns - sent_ns) / 1e6))


@contextmanager
def _arrivals(bootstrap_servers: str, job: CopyJob) -> Iterator[_Arrivals]:
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
    consumer.assign([TopicPartition(job.target_topic, each, 0) for each in range(job.partitions)])
    arrivals = _Arrivals(consumer)
    try:
        yield arrivals
    finally:
        arrivals.stop()


def _wait_for_target(running: Running, pair: ClusterPair, job: CopyJob) -> None:
    while pair.target.topics().get(job.target_topic) != job.partitions:
        running.check(LIVE_LIMIT_S)
        time.sleep(0.1)


def _wait_until_live(running: Running, trickle: _Trickle, arrivals: _Arrivals) -> None:
    while arrivals.count == 0:
        running.check(LIVE_LIMIT_S)
        trickle.send()
        time.sleep(0.1)
