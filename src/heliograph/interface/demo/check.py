"""The demo's judge: kafka-python's consumer reads both clusters and compares them record by record.

Owns the comparison. Must not know any code of the mirror. It takes some 12 us of Python for each record, so several
processes take a share of the partitions each.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from heliograph.interface.demo.child import Child
from heliograph.interface.demo.workload import TOPICS

QUIET_LIMIT_S = 30.0
PROCESSES = 2
FETCH_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    records: int
    differences: int
    first_difference: str | None


def check(source_servers: str, target_servers: str) -> CheckResult:
    """Same partitions, log start and end; same offset, timestamp, key, value and headers of every record."""
    children: list[Child] = []
    try:
        for share in range(PROCESSES):
            children.append(Child(__name__, source_servers, target_servers, str(share)))
        return total(CheckResult(**child.last_words()) for child in children)
    finally:
        for child in children:
            child.end()


def total(results: Iterable[CheckResult]) -> CheckResult:
    each = list(results)
    return CheckResult(
        records=sum(result.records for result in each),
        differences=sum(result.differences for result in each),
        first_difference=next((result.first_difference for result in each if result.first_difference), None),
    )


def check_share(source_servers: str, target_servers: str, share: int) -> CheckResult:
    source, target = _consumer(source_servers), _consumer(target_servers)
    checked = differences = 0
    first: str | None = None
    try:
        for where in _partitions(source)[share::PROCESSES]:
            for here, there in _pairs(source, target, where):
                checked += 1
                if here != there:
                    differences += 1
                    first = first or f"{where.topic}:{where.partition}: source {here}, target {there}"
        if _partitions(source) != _partitions(target):
            differences += 1
            first = first or "the topics do not have the same partitions"
    finally:
        source.close()
        target.close()
    return CheckResult(records=checked, differences=differences, first_difference=first)


def _consumer(servers: str) -> Any:
    return KafkaConsumer(
        bootstrap_servers=servers,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_poll_records=5000,
        max_partition_fetch_bytes=FETCH_BYTES,
        fetch_max_wait_ms=50,
    )


def _partitions(consumer: Any) -> list[Any]:
    return [TopicPartition(t, p) for t in TOPICS for p in sorted(consumer.partitions_for_topic(t) or ())]


def _pairs(source: Any, target: Any, where: Any) -> Iterator[tuple[Any, Any]]:
    bounds = [(c.beginning_offsets([where])[where], c.end_offsets([where])[where]) for c in (source, target)]
    if bounds[0] != bounds[1]:
        yield bounds[0], bounds[1]
        return
    yield from zip(_read(source, where, bounds[0][1]), _read(target, where, bounds[1][1]), strict=True)


def _read(consumer: Any, where: Any, end: int) -> Iterator[Any]:
    consumer.assign([where])
    consumer.seek_to_beginning(where)
    deadline = time.monotonic() + QUIET_LIMIT_S
    while consumer.position(where) < end:
        for rows in consumer.poll(timeout_ms=500).values():
            deadline = time.monotonic() + QUIET_LIMIT_S
            for r in rows:
                yield r.offset, r.timestamp, r.timestamp_type, r.key, r.value, r.headers
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"{where.topic}:{where.partition} gives no records at {consumer.position(where)}"
            )


def main(source_servers: str, target_servers: str, share: str) -> None:
    logging.basicConfig(level=logging.ERROR)
    result = check_share(source_servers, target_servers, int(share))
    print(json.dumps(asdict(result)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
