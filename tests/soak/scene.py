"""What a soak strikes at: a source, a target of three brokers, a producer, and two drivers of one link.

Owns them all, and the judgement at the end. Must not know the faults.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from heliograph.lab.cluster import LabCluster
from tests.support.fault_scene import fill
from tests.support.judge import assert_identical
from tests.support.mirror_process import MirrorProcess, write_config
from tests.support.replicas import ReplicaView
from tests.support.steady_producer import SteadyProducer
from tests.support.topics import create_topic
from tests.support.workload import produce_mixed

TOPICS = ("orders", "clicks")
OLD_TOPIC = "archive"  # of records that make the target forget who wrote them
OLD_RECORDS = 8_000
THREE_DAYS_MS = 3 * 86_400_000
PARTITIONS = 6
FIRST_RECORDS = 20_000
FINISH_LIMIT_S = 600.0
POLL_S = 1.0


class SoakScene:
    """`drivers` are the two runs: at most one copies, the other stands by."""

    def __init__(self, place: Path, *, rate_per_s: int, seed: int) -> None:
        self._place = place
        self._rate_per_s = rate_per_s
        self._seed = seed
        self._mixed = 0

    def __enter__(self) -> Self:
        self.source = LabCluster.start(name="source", heap_mb=384)
        self.target = LabCluster.start(
            name="target",
            brokers=3,
            heap_mb=384,
            properties={"min.insync.replicas": "2", "producer.id.expiration.check.interval.ms": "1000"},
        )
        source, target = self.source.bootstrap_servers, self.target.bootstrap_servers
        for topic in (*TOPICS, OLD_TOPIC):
            create_topic(source, topic, PARTITIONS)
            create_topic(target, topic, PARTITIONS, 3)
        self._mixed = produce_mixed(source, *TOPICS, count=FIRST_RECORDS, seed=self._seed)
        fill(source, OLD_TOPIC, OLD_RECORDS, partitions=PARTITIONS, age_ms=THREE_DAYS_MS)
        self._mixed += OLD_RECORDS
        self._producers = [
            SteadyProducer(source, topic, rate_per_s=self._rate_per_s / len(TOPICS)).__enter__()
            for topic in TOPICS
        ]
        config = write_config(self._place, source=source, target=target, topics=[*TOPICS, OLD_TOPIC])
        self.drivers = []
        for number in range(2):
            runtime = self._place / f"d{number}"
            runtime.mkdir()
            self.drivers.append(MirrorProcess(config, runtime=runtime).__enter__())
        self.rest(20.0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            for driver in self.drivers:
                sys.stdout.write(f"--- driver {driver.pid}:\n{driver.log[-20_000:]}\n")
        for producer in self._producers:
            if producer.running:
                producer.__exit__(kind, error, trace)
        for driver in self.drivers:
            driver.__exit__()
        self.target.stop()
        self.source.stop()

    @property
    def produced(self) -> int:
        return self._mixed + sum(producer.count for producer in self._producers)

    def copied(self) -> int:
        """By the word of the driver that is furthest; 0 while none can be asked."""
        return max((driver.copied() for driver in self.drivers if driver.running), default=0)

    def rest(self, seconds: float) -> None:
        """The pause between two faults is part of the soak."""
        time.sleep(seconds)

    def move_leaders(self, order: Sequence[int]) -> None:
        """Of one topic of the target, with nobody down: new leader epochs. Brokers of a strike before may be behind."""
        view = ReplicaView(self.target.bootstrap_servers, TOPICS[0])
        view.wait_whole()
        view.move_leaders(order)

    def restart(self, number: int) -> None:
        self.drivers[number] = self.drivers[number].again()

    def finish(self) -> int:
        """Both drivers run, everything is copied, both end well, and nobody can tell the clusters apart."""
        for number, driver in enumerate(self.drivers):
            if not driver.running:
                self.restart(number)
        produced = self._mixed + sum(producer.stop() for producer in self._producers)
        deadline = time.monotonic() + FINISH_LIMIT_S
        while self.copied() < produced:
            assert time.monotonic() < deadline, f"{self.copied():,} of {produced:,} copied"
            assert any(driver.running for driver in self.drivers)
            time.sleep(POLL_S)
        for driver in self.drivers:
            driver.terminate()
        codes = [driver.wait()[0] for driver in self.drivers]
        assert codes == [0, 0], f"exit codes {codes}"
        verdict = assert_identical(
            self.source.bootstrap_servers,
            self.target.bootstrap_servers,
            [*TOPICS, OLD_TOPIC],
            records=produced,
            timeout_s=600,
        )
        return verdict.records
