"""Compacted topics: made on a real source and compacted there, and judged on the target.

The judge's rule, of what consumers of committed records see on both sides: at offsets that both hold records are
equal; a record that only one side holds has a later one of its key there; the last record of each key is the same on
both sides, at the same offset; the target holds no filler.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping

from confluent_kafka import Producer

from .log_reader import Deadline, LogReader, SeenRecord
from .topics import create_topic, set_config

CLEAN_SOON = {"log.cleaner.backoff.ms": "200"}
SEGMENT_MS = 100
TAIL = 10
EAGER = {"cleanup.policy": "compact", "segment.ms": str(SEGMENT_MS), "min.cleanable.dirty.ratio": "0.01"}
LIMIT_S = 120.0
HOT_KEYS = 7


def write_sparse(
    bootstrap: str,
    topic: str,
    partition: int,
    count: int,
    *,
    live_every: int,
    codec: str,
    seed: int = 0,
    timestamp_ms: int = 0,
) -> None:
    """`count` records, of which compaction leaves each `live_every`-th, and the last of a few hot keys; and a tail that
    it leaves alone. `timestamp_ms`: of all; 0: the time at which they are written."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "linger.ms": 50,
            "batch.num.messages": 5000,
            "queue.buffering.max.messages": 2_000_000,
        }
    )
    for number in range(count):
        live = number % live_every == 0
        key = b"%d live %d" % (seed, number) if live else b"hot %d" % (number % HOT_KEYS)
        value = None if number % (live_every * 50) == 0 else b"value %d of %d" % (number, seed)
        producer.produce(topic, value, key, partition=partition, timestamp=timestamp_ms)
        if number % 100_000 == 0:
            producer.poll(0)
    assert producer.flush(LIMIT_S) == 0
    time.sleep(
        2 * SEGMENT_MS / 1000
    )  # what comes now begins a new segment, and all before it can be compacted
    for number in range(TAIL):
        key = b"tail %d of %d" % (number, seed)
        producer.produce(topic, b"tail", key, partition=partition, timestamp=timestamp_ms)
    assert producer.flush(LIMIT_S) == 0


def write_hot(bootstrap: str, topic: str, count: int) -> None:
    """Records of the keys that `write_sparse` writes again: none of them stays."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 50,
            "batch.num.messages": 5000,
            "queue.buffering.max.messages": count + 1,
        }
    )
    for number in range(count):
        producer.produce(topic, b"gone", b"hot %d" % (number % HOT_KEYS), partition=0)
    assert producer.flush(LIMIT_S) == 0


def write_changelog(bootstrap: str, topic: str, *, transactions: int, records: int) -> int:
    """Of one transactional producer to partition 0: each transaction has the same keys as the one before, but for one
    of its own, and each third is aborted. How many records were committed."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": f"{topic}-{uuid.uuid4().hex[:8]}",
            "linger.ms": 5,
        }
    )
    producer.init_transactions(LIMIT_S)
    committed = 0
    for number in range(transactions):
        producer.begin_transaction()
        for nth in range(records):
            key = b"only %d of %f" % (number, time.time()) if nth == 0 else b"again %d" % nth
            producer.produce(topic, b"%d in %d" % (nth, number), key, partition=0)
        if number % 3 == 1:
            producer.flush(LIMIT_S)  # an abort would drop what was not sent
            producer.abort_transaction(LIMIT_S)
        else:
            producer.commit_transaction(LIMIT_S)
            committed += records
        if number == transactions - 2:
            time.sleep(2 * SEGMENT_MS / 1000)  # the last one begins a new segment
    return committed


def make_compacted(
    bootstrap: str,
    topic: str,
    *,
    partitions: int = 1,
    replicas: int = 1,
    configs: Mapping[str, str] | None = None,
) -> None:
    create_topic(bootstrap, topic, partitions, replicas, configs={**EAGER, **(configs or {})})


def await_compaction(bootstrap: str, topic: str, partition: int, most_records: int) -> None:
    """Until a consumer sees so many at the most."""
    give_up_at = time.monotonic() + LIMIT_S
    while len(records_of(bootstrap, topic, partition)) > most_records:
        assert time.monotonic() < give_up_at, "the source is not compacted"
        time.sleep(0.5)


def stop_compaction(bootstrap: str, topic: str) -> None:
    """What is compacted stays so, and no more is."""
    set_config(bootstrap, topic, "min.cleanable.dirty.ratio", "1")
    set_config(bootstrap, topic, "segment.ms", "604800000")


def bounds_of(bootstrap: str, topic: str, partition: int) -> range:
    with LogReader(bootstrap, Deadline.after(LIMIT_S)) as reader:
        return reader.bounds(topic, partition)


def records_of(
    bootstrap: str, topic: str, partition: int, isolation: str = "read_committed"
) -> dict[int, SeenRecord]:
    with LogReader(bootstrap, Deadline.after(LIMIT_S), isolation) as reader:
        bounds = reader.bounds(topic, partition)
        return {record.offset: record for record in reader.records(topic, partition, bounds)}


def assert_same_compacted(
    source: str, target: str, topic: str, partition: int, *, target_isolation: str = "read_committed"
) -> int:
    """How many records the target holds. The source's are its committed ones."""
    here = records_of(source, topic, partition)
    there = records_of(target, topic, partition, target_isolation)
    fillers = [offset for offset, record in there.items() if record.key is None]
    assert not fillers, f"{len(fillers)} fillers, the first at {fillers[0]}"
    different = [offset for offset in here.keys() & there.keys() if here[offset] != there[offset]]
    assert not different, f"{len(different)} differ, the first at {min(different)}"
    last_here, last_there = _last_offsets(here), _last_offsets(there)
    assert last_here == last_there
    for ones, lasts in ((here, last_there), (there, last_here)):
        for offset, record in ones.items():
            assert record.key is not None
            assert offset <= lasts[record.key]
    only = here.keys() ^ there.keys()
    assert all(offset < last_here[(here.get(offset) or there[offset]).key or b""] for offset in only), (
        "a record that only one side holds is the last of its key"
    )
    return len(there)


def _last_offsets(records: Mapping[int, SeenRecord]) -> dict[bytes, int]:
    return {record.key: offset for offset, record in sorted(records.items()) if record.key is not None}
