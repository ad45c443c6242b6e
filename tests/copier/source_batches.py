"""What a source answers, built batch by batch, and the one partition that most tests copy.

Records are of today unless a test asks for old ones: those are perishable.
"""

from __future__ import annotations

import time
from typing import Any

from heliograph.copier.budget import ByteBudget, Parcel
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.phases import Phase
from heliograph.copier.resync import Synced
from heliograph.copier.spec import CopySpec
from heliograph.model.errors import Disconnected
from heliograph.model.events import Event, Trouble
from heliograph.model.fill_way import FillWay
from heliograph.model.partition import MirrorPartition
from heliograph.model.position import SEQUENCES, Position
from heliograph.model.producer_id import producer_id
from heliograph.wire.fetch import FetchedPartition
from tests.wire.batches import make_batch

PARTITION = MirrorPartition("sf-to-nyc", "orders", "orders", 0)
OURS = producer_id("sf-id", "orders")
MIRRORED_BACK = producer_id("nyc-id", "orders")  # of batches that stop: they came from the target
CONTROL, TRANSACTIONAL, LOG_APPEND_TIME = 0x20, 0x10, 0x08
DAY_MS = 86_400_000
NOW_MS = time.time_ns() // 1_000_000
OLD_MS = NOW_MS - 3 * DAY_MS
NOW_S = 1000.0  # of the event loop's clock
BROKEN = Disconnected("broker-1:9092 closed the connection")
AWAY = Trouble(Event.BROKER_AWAY, "broker-1:9092 is away")


def spec_of(
    partition: MirrorPartition = PARTITION,
    *,
    max_batch_bytes: int = 1 << 20,
    max_merged_bytes: int = 0,
    fill_way: FillWay = FillWay.MARKERS,
) -> CopySpec:
    return CopySpec(
        partition=partition,
        source="sf",
        target="nyc",
        target_cluster_id="nyc-id",
        producer_id=producer_id("sf-id", partition.source_topic),
        max_batch_bytes=max_batch_bytes,
        max_merged_bytes=max_merged_bytes,
        fill_way=fill_way,
        source_cluster_id="sf-id",
    )


def position_at(offset: int) -> Position:
    """Where a copy that has appended nothing but whole batches from offset 0 on goes on."""
    return Position(source=offset, target=offset, sequence=offset % SEQUENCES)


def synced_at(offset: int, **more: Any) -> Synced:
    return Synced(position=position_at(offset), **more)


def copy_at(
    next_offset: int, state_ms: int | None = NOW_MS, source_epoch: int = -1, *, max_merged_bytes: int = 0
) -> PartitionCopy:
    """A copy in PROBE, of a broker that remembers it unless `state_ms` is None. It merges nothing unless asked to."""
    copy = PartitionCopy(spec_of(max_merged_bytes=max_merged_bytes), 1 << 20)
    copy.synced(synced_at(next_offset, state_ms=state_ms, source_epoch=source_epoch))
    return copy


def phase_of(copy: PartitionCopy) -> Phase:
    """Read anew: a type checker believes that what it saw once stays."""
    return copy.phase


def batch(
    at: int, count: int = 1, *, value_bytes: int = 8, timestamp: int = NOW_MS, **changed: Any
) -> bytearray:
    """A batch of `count` records from offset `at` on, each telling its offset."""
    records = [(b"k%d" % n, b"%d" % n + b"." * value_bytes, ()) for n in range(at, at + count)]
    return make_batch(records, base_offset=at, timestamp=timestamp, **changed)


def holed(
    at: int, deltas: list[int], last_delta: int, *, timestamp: int = NOW_MS, **changed: Any
) -> bytearray:
    """A batch from offset `at` on of which compaction has left these."""
    return make_batch(
        [(b"k%d" % (at + delta), b"%d" % (at + delta) + b"." * 8, ()) for delta in deltas],
        base_offset=at,
        offset_deltas=deltas,
        last_offset_delta=last_delta,
        timestamp=timestamp,
        **changed,
    )


def old_batch(at: int, count: int = 1, **changed: Any) -> bytearray:
    """Of records that a broker has forgotten the producer of by its next look."""
    return batch(at, count, timestamp=OLD_MS, **changed)


def give(
    copy: PartitionCopy, *batches: bytes | bytearray, end: int = 1000, now_ms: int = NOW_MS
) -> ByteBudget:
    """Deliver these batches as the answer to what the copy asks for now, as the fetcher does."""
    asked = copy.fetch_offset()
    assert asked is not None
    return give_reply(copy, fetched(*batches, end=end), asked, now_ms)


def give_reply(
    copy: PartitionCopy,
    reply: FetchedPartition,
    asked: int,
    now_ms: int = NOW_MS,
    *,
    exclusive: bool = True,
) -> ByteBudget:
    budget = ByteBudget(1 << 30, 1 << 30)
    budget.adjust(0, len(reply.records))
    parcel = Parcel(budget, len(reply.records))
    copy.fetched(reply, asked, parcel, now_ms, exclusive=exclusive)
    parcel.release()
    return budget


def fetched(
    *batches: bytes | bytearray,
    end: int = 1000,
    stable: int | None = None,
    diverging: tuple[int, int] | None = None,
) -> FetchedPartition:
    return FetchedPartition(
        topic=PARTITION.source_topic,
        partition=PARTITION.partition,
        error=0,
        high_watermark=end,
        last_stable_offset=end if stable is None else stable,
        log_start_offset=0,
        preferred_read_replica=-1,
        records=memoryview(bytearray(b"".join(batches))),
        diverging_epoch=diverging,
        current_leader=None,
    )
