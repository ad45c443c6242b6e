"""A fault amid a copy: a backlog that a mirror works off slowly, records produced all the while, one judge at the end.

Owns the rule of every fault test: when a fault strikes, at least 20 % of what is there were copied and 20 % were not.
Must not know the faults.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from .judge import assert_identical
from .mirror_process import MirrorProcess, write_config
from .quota import set_read_quota
from .records import Record
from .steady_producer import SteadyProducer
from .topics import create_topic
from .workload import ConfirmedProducer

PARTITIONS = 4
VALUE_BYTES = 300
BATCH_RECORDS = 10
LEAST, MOST = 0.2, 0.8
# What the mirror may read while the backlog is filled: on a quick machine it would be through with the filling.
HELD_BACK_BYTES_PER_S = 100_000
Clients = tuple[str | Mapping[str, str], str | Mapping[str, str]]
# One small batch per fetch: the backlog takes long enough for a fault to strike amid it.
SLOWLY = {"consumer": {"fetch.max.bytes": "4000", "max.partition.fetch.bytes": "4000"}}


def fill(bootstrap: str, topic: str, count: int, *, partitions: int = PARTITIONS, age_ms: int = 0) -> None:
    """So many records in small batches over all partitions, as old as asked for."""
    producer = ConfirmedProducer(bootstrap, codec="none", **{"batch.num.messages": BATCH_RECORDS})
    value = random.Random(count).randbytes(VALUE_BYTES)
    now_ms = int(time.time() * 1000) - age_ms
    for number in range(count):
        body = number.to_bytes(8, "big") + value
        record = Record(
            key=b"%d" % number, value=body, headers=(("h", b"1"),), timestamp_ms=now_ms + number // 100
        )
        producer.send(topic, number % partitions, record)
    producer.confirm()


class FaultScene:
    """Enter it, `begin`, `strike`, and `finish`. `clients`: how the mirror comes to source and target, where that is
    not as the test itself does."""

    def __init__(
        self,
        source: str,
        target: str,
        topic: str,
        runtime: Path,
        *,
        backlog: int = 60_000,
        rate_per_s: int = 300,
        age_ms: int = 0,
        replication_factor: int = 1,
        clients: Clients | None = None,
        link: Mapping[str, Any] | None = None,
        **config: Any,
    ) -> None:
        self.source, self.target, self.topic = source, target, topic
        self.backlog = backlog
        self._rate_per_s = rate_per_s
        self._runtime = runtime
        create_topic(source, topic, PARTITIONS, replication_factor)
        self._age_ms = age_ms
        mirrored = clients or (source, target)
        self.config = write_config(
            runtime,
            source=mirrored[0],
            target=mirrored[1],
            topics=[topic],
            link={**SLOWLY, **(link or {})},
            **config,
        )
        self.mirror = MirrorProcess(self.config, runtime=runtime)
        self._producer = SteadyProducer(source, topic, rate_per_s=rate_per_s)

    def __enter__(self) -> Self:
        self.mirror.__enter__()
        return self

    def begin(self) -> None:
        """Once the lanes are up: the backlog at once, and from then on a record now and then."""
        self.mirror.wait_until(self._is_ready, "lanes that hold all partitions")
        set_read_quota(self.source, HELD_BACK_BYTES_PER_S)
        try:
            fill(self.source, self.topic, self.backlog, age_ms=self._age_ms)
        finally:
            set_read_quota(self.source, None)
        self._producer.__enter__()

    def _is_ready(self) -> bool:
        partitions = self.mirror.live().get("partitions", [])
        return len(partitions) == PARTITIONS and all(p["state"] == "caught_up" for p in partitions)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._producer.running:
                self._producer.__exit__(kind, error, trace)
        finally:
            self.mirror.__exit__()

    @property
    def there(self) -> int:
        return self.backlog + self._producer.count

    def copied(self) -> int:
        return self.mirror.copied()

    def wait_amid(self, least: float = LEAST + 0.05) -> None:
        """Until a fault may strike."""
        self.mirror.wait_until(lambda: self.copied() >= least * self.there, f"{least:.0%} copied")

    def strike(self, fault: Callable[[], None], *, least: float = LEAST + 0.05) -> None:
        """Wait until it may, do it, and check that it struck amid the copy."""
        self.wait_amid(least)
        copied, there = self.copied(), self.there
        assert LEAST * there <= copied <= MOST * there, f"{copied} of {there} copied at the fault"
        fault()

    def restart(self) -> None:
        """Start the mirror again, after it was killed as a whole."""
        self.mirror.__exit__()
        self.mirror = MirrorProcess(self.config, runtime=self._runtime)
        self.mirror.__enter__()

    def finish(self, *, timeout_s: float = 120.0) -> None:
        """Everything is copied, the mirror ends well, and nobody can tell source and target apart."""
        produced = self.backlog + self._producer.stop()
        self.mirror.wait_until(lambda: self.copied() >= produced, "everything copied", timeout_s)
        self.mirror.terminate()
        assert self.mirror.wait()[0] == 0, self.mirror.log
        assert_identical(self.source, self.target, [self.topic], records=produced)


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
