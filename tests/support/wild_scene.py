"""A wild link: two topics, one of them compacted while it is mirrored, that producers of every kind write to at once,
and two runs, of which one stands by, beside three target brokers.

Owns them all, and the rule that between two faults every producer has written, the source was compacted anew, and all
of that is on the target. Must not know the faults.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from heliograph.controller.build_settings import with_build
from heliograph.controller.topic_config import FORCED
from heliograph.lab.cluster import LabCluster

from .compacted_scene import EAGER, assert_same_compacted, make_compacted
from .judge import assert_identical
from .log_reader import read_topic
from .mirror_process import write_config
from .pair_faults import Fault
from .replicas import create_assigned
from .steady_producer import SteadyProducer
from .steady_transactions import SteadyTransactions
from .struck_pair import COMMITTED, UNCOMMITTED, StruckPair, Where, bounds_of, settled_ends
from .topics import create_topic, own_configs
from .two_runs import TwoRuns
from .wild_records import any_kind, fresh, large, old

NODES = (1, 2, 3)
PARTITIONS = 2
CLEANER = {"log.cleaner.backoff.ms": "500"}
SEGMENTS = {"segment.ms": "1000"}  # what is older can be compacted
# Records a second for each topic, beside about 50 in transactions for both.
RATES = {fresh: 40.0, old: 4.0, large: 0.2}
# Old records wait until nothing of the last holder can arrive any more, and then there is a backlog.
COPY_LIMIT_S = 300.0
LEDGER, EVENTS = "__heliograph_ledger", "__heliograph_events"

log = logging.getLogger(__name__)


class WildScene:
    """Enter it: all producers write, one run copies both topics, the other one stands by."""

    def __init__(
        self, sources: LabCluster, targets: LabCluster, place: Path, name: str, *, seed: int
    ) -> None:
        (self._source_broker,) = sources.brokers
        self._source, self._target = sources.bootstrap_servers, targets.bootstrap_servers
        self._kept, self._compacted = self.topics = [f"{name}-kept", f"{name}-compacted"]
        self._create_topics()
        self._producers = {
            (topic, make.__name__): SteadyProducer(self._source, topic, rate_per_s=rate, make=make)
            for topic in self.topics
            for make, rate in RATES.items()
        }
        self._transactions = SteadyTransactions(self._source, self.partitions, seed=seed, make=any_kind)
        config = write_config(place, source=self._source, target=self._target, topics=self.topics)
        self._pair = StruckPair(TwoRuns(config, place), targets)
        self._undo = contextlib.ExitStack()

    @property
    def partitions(self) -> list[Where]:
        return [Where(topic, number) for topic in self.topics for number in range(PARTITIONS)]

    def _create_topics(self) -> None:
        """On the target with three replicas, as a mirror of a source with three would create them."""
        create_topic(self._source, self._kept, PARTITIONS)
        make_compacted(self._source, self._compacted, partitions=PARTITIONS, configs=SEGMENTS)
        replicas = [NODES[at:] + NODES[:at] for at in range(PARTITIONS)]
        create_assigned(self._target, self._kept, replicas, FORCED)
        create_assigned(self._target, self._compacted, replicas, with_build({**FORCED, **EAGER, **SEGMENTS}))

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as undo:
            for producer in self._producers.values():
                undo.enter_context(producer)
            undo.enter_context(self._transactions)
            self._await_compaction([0] * PARTITIONS)  # the target has holes to build from the beginning
            undo.enter_context(self._pair.runs)
            self._pair.runs.wait_whole()
            self._pair.runs.wait(self._is_built, "compacted topic that is built", COPY_LIMIT_S)
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.__exit__(kind, error, trace)

    def _is_built(self) -> bool:
        self._assert_none_stopped()
        own = own_configs(self._target, self._compacted)
        return (own["cleanup.policy"], own["segment.ms"]) == ("compact", SEGMENTS["segment.ms"])

    # -- what is there

    def _written(self) -> Counter[str]:
        """So many records of every kind, and so many transactions."""
        counts = Counter(
            {f"{kind} to {topic}": each.count for (topic, kind), each in self._producers.items()}
        )
        counts.update({f"committed to {k}": v for k, v in self._transactions.committed_to.items()})
        counts["aborted transactions"] = self._transactions.aborted
        return counts

    def _cleaned_to(self) -> list[int]:
        """Up to where the source's cleaner came, by partition of the compacted topic: its own checkpoint says so."""
        path = self._source_broker.directory / "data" / "cleaner-offset-checkpoint"
        lines = path.read_text().splitlines() if path.exists() else []
        rows = [line.split() for line in lines]
        found = {int(row[1]): int(row[2]) for row in rows if len(row) == 3 and row[0] == self._compacted}
        return [found.get(number, 0) for number in range(PARTITIONS)]

    def _await_compaction(self, beyond: list[int]) -> None:
        self._pair.runs.wait(
            lambda: all(now > then for now, then in zip(self._cleaned_to(), beyond, strict=True)),
            "compaction of the source",
        )

    def _source_ends(self) -> list[int]:
        return [log.stop for log in bounds_of(self._source, self.partitions, COMMITTED)]

    def _await_copy(self, ends: list[int]) -> None:
        def copied() -> bool:
            self._assert_none_stopped()
            logs = self._pair.bounds(*self.partitions)
            return all(log.stop >= end for log, end in zip(logs, ends, strict=True))

        self._pair.runs.wait(copied, f"copy up to {ends}", COPY_LIMIT_S)

    def _assert_none_stopped(self) -> None:
        stopped = self._pair.runs.in_state("stopped")
        assert not stopped, f"stopped: {stopped}\n{self._pair.runs.shown()}"

    # -- what is done to it

    def strike(self, fault: Fault, where: Where) -> None:
        """Amid records of every kind; and all that came before, meanwhile and after that is copied."""
        self._flow()
        began_at, before = time.monotonic(), self._source_ends()
        struck: list[int] = []
        fault(self._pair, where, lambda: struck.append(self._pair.bounds(where)[0].stop))
        assert struck, "the fault did not say that it struck"
        self._pair.wait_whole(self.topics)
        meanwhile = [now - then for now, then in zip(self._source_ends(), before, strict=True)]
        assert min(meanwhile) > 0, f"the source did not grow: {meanwhile}"
        log.info(
            "%s at %s, whose target ended at %d: mended after %.0f s, in which %d offsets came",
            fault.__name__,
            where,
            struck[0],
            time.monotonic() - began_at,
            sum(meanwhile),
        )

    def _flow(self) -> None:
        """Until every producer has written, the source was compacted behind its end, and all of that is copied."""
        began_at, before, end = time.monotonic(), self._written(), self._compacted_ends()
        self._pair.runs.wait(
            lambda: (
                self._written().keys() >= before.keys()
                and all(now > before[what] for what, now in self._written().items())
            ),
            "records of every kind",
        )
        self._await_compaction(end)
        self._await_copy(self._source_ends())
        log.info("all flows after %.0f s: %s", time.monotonic() - began_at, dict(self._written()))

    def _compacted_ends(self) -> list[int]:
        wheres = [where for where in self.partitions if where.topic == self._compacted]
        return [log.stop for log in bounds_of(self._source, wheres, COMMITTED)]

    # -- the end

    def finish(self) -> None:
        """Both runs end well, none has ever stopped a partition, and nobody can tell source and target apart."""
        self._flow()
        for producer in self._producers.values():
            producer.stop()
        self._transactions.stop()
        ends = settled_ends(self._pair.runs, self._source, self.partitions)
        self._await_copy(ends)
        assert [log.stop for log in self._pair.bounds(*self.partitions)] == ends
        self._pair.runs.finish()
        self._assert_no_stop_is_recorded()
        committed = self._transactions.committed_to[self._kept]
        committed += sum(each.count for (topic, _), each in self._producers.items() if topic == self._kept)
        for view in (COMMITTED, UNCOMMITTED):
            assert_identical(
                self._source, self._target, [self._kept], records=committed, isolations=(COMMITTED, view)
            )
        held = [
            assert_same_compacted(self._source, self._target, self._compacted, number)
            for number in range(PARTITIONS)
        ]
        log.info(
            "%d records identical; of %d compacted offsets the target holds %d",
            committed,
            sum(ends[PARTITIONS:]),
            sum(held),
        )
        assert 0 < sum(held) < sum(ends[PARTITIONS:]) / 2, "the target is not compacted"

    def _assert_no_stop_is_recorded(self) -> None:
        rows = [_decoded(key) for key, _ in self._told(LEDGER)]
        assert rows, "the ledger is empty"
        stops = [row for row in rows if row[3] == "stop"]
        assert not stops, f"rows of the ledger: {stops}"
        events = [_decoded(value) for _, value in self._told(EVENTS)]
        assert events, "there are no events"
        errors = [each for each in events if each["severity"] == "error"]
        assert not errors, f"events: {errors}"

    def _told(self, topic: str) -> list[tuple[bytes, bytes]]:
        (records,) = read_topic(self._target, topic)
        return [(record.key or b"", record.value or b"") for record in records]


def _decoded(record: bytes) -> Any:
    assert record[:1] == b"\x01", f"not of version 1: {record!r}"
    return json.loads(record[1:])
