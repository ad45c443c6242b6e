"""One batch of each of many partitions: whole, however large it is, and in few fetches. The brokers are played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heliograph.cluster.batches_at import SHARES_BYTES, batches_at
from heliograph.model.partition import TopicPartition
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.batch import BatchHeader
from heliograph.wire.error_codes import ErrorCode
from tests.wire.batches import make_batch

from .counted_cluster import CountedCluster, PlayedLog

SMALL = 10


def log_of(*sizes_bytes: int) -> PlayedLog:
    """A record in each batch, of this size."""
    batches = {
        base: bytes(make_batch([(None, b"x" * size_bytes, [])], base_offset=base))
        for base, size_bytes in enumerate(sizes_bytes)
    }
    return PlayedLog(end=len(sizes_bytes), batches=batches)


def base_offset(header: BatchHeader, view: memoryview) -> int:
    assert len(view) == header.size_bytes
    return header.base_offset


async def found_at(
    logs: Sequence[PlayedLog],
    offsets: Mapping[int, int],
    *,
    refusals: Mapping[int, int] | None = None,
    limit_bytes: int = 1 << 30,
) -> tuple[dict[int, object], int]:
    """By partition, and how many fetches it took."""
    cluster = CountedCluster("sf", 1, {"orders": logs})
    cluster.fetch_max_bytes = limit_bytes
    cluster.refusals = {TopicPartition("orders", n): [code] for n, code in (refusals or {}).items()}
    async with cluster.running(), cluster.client() as client:
        wheres = {TopicPartition("orders", number): offset for number, offset in offsets.items()}
        found = await batches_at(client, wheres, base_offset)
    return {where.partition: each for where, each in found.items()}, cluster.counts()[0, ApiKey.FETCH]


async def test_small_batches_of_many_partitions_come_in_one_fetch() -> None:
    found, fetches = await found_at([log_of(SMALL, SMALL)] * 100, dict.fromkeys(range(100), 1))
    assert found == dict.fromkeys(range(100), 1)
    assert fetches == 1


async def test_batches_that_are_larger_than_their_share_are_asked_for_with_a_larger_one() -> None:
    sizes = [SMALL, *(share + 1 for share in SHARES_BYTES)] * 8
    found, fetches = await found_at([log_of(size) for size in sizes], dict.fromkeys(range(len(sizes)), 0))
    assert found == dict.fromkeys(range(len(sizes)), 0)
    largest = sizes.count(SHARES_BYTES[-1] + 1)
    assert fetches <= 1 + 1 + 2 + largest


async def test_what_has_no_room_in_an_answer_is_asked_for_again() -> None:
    """Brokers have a limit of their own (fetch.max.bytes), which may be lower than what is asked for."""
    found, fetches = await found_at([log_of(1000)] * 30, dict.fromkeys(range(30), 0), limit_bytes=20_000)
    assert found == dict.fromkeys(range(30), 0)
    assert fetches == 2


async def test_in_a_hole_the_next_batch_is_found_and_past_the_high_watermark_none() -> None:
    hole = PlayedLog(end=9, batches={8: bytes(make_batch([(None, b"x", [])], base_offset=8))})
    found, fetches = await found_at([hole, hole, PlayedLog()], {0: 3, 1: 9, 2: 0})
    assert found == {0: 8, 1: None, 2: None}
    assert fetches == 1


async def test_a_log_that_holds_nothing_up_to_its_high_watermark_has_none() -> None:
    found, _ = await found_at([PlayedLog(end=9), log_of(SMALL)], {0: 3, 1: 0})
    assert found == {0: None, 1: 0}


async def test_a_partition_that_is_refused_leaves_the_others_their_batches() -> None:
    found, fetches = await found_at(
        [log_of(SMALL)] * 3, dict.fromkeys(range(3), 0), refusals={1: ErrorCode.OFFSET_OUT_OF_RANGE}
    )
    assert (found[0], found[2]) == (0, 0)
    assert "orders:1 at 0 from broker 0: OFFSET_OUT_OF_RANGE" in str(found[1])
    assert fetches == 1
