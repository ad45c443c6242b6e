"""What a source answers, built batch by batch, and the one partition that most tests copy."""

from __future__ import annotations

from typing import Any

from heliograph.copier.spec import CopySpec
from heliograph.model.partition import MirrorPartition
from heliograph.model.producer_id import producer_id
from heliograph.wire.fetch import FetchedPartition
from tests.wire.batches import make_batch

PARTITION = MirrorPartition("sf-to-nyc", "orders", "orders", 0)
OURS = producer_id("sf-id", "orders")
CONTROL, TRANSACTIONAL, LOG_APPEND_TIME = 0x20, 0x10, 0x08


def spec_of(partition: MirrorPartition = PARTITION, *, max_batch_bytes: int = 1 << 20) -> CopySpec:
    return CopySpec(
        partition=partition,
        source="sf",
        target="nyc",
        target_cluster_id="nyc-id",
        producer_id=producer_id("sf-id", partition.source_topic),
        max_batch_bytes=max_batch_bytes,
    )


def batch(at: int, count: int = 1, *, value_bytes: int = 8, **changed: Any) -> bytearray:
    """A batch of `count` records from offset `at` on, each telling its offset."""
    records = [(b"k%d" % n, b"%d" % n + b"." * value_bytes, ()) for n in range(at, at + count)]
    return make_batch(records, base_offset=at, **changed)


def fetched(*batches: bytes | bytearray, end: int = 1000, stable: int | None = None) -> FetchedPartition:
    return FetchedPartition(
        topic=PARTITION.source_topic,
        partition=PARTITION.partition,
        error=0,
        high_watermark=end,
        last_stable_offset=end if stable is None else stable,
        log_start_offset=0,
        preferred_read_replica=-1,
        records=memoryview(bytearray(b"".join(batches))),
        diverging_epoch=None,
        current_leader=None,
    )
