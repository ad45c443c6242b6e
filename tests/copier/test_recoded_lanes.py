"""Lanes that re-encode: successors and rivals that cut batches elsewhere leave every record at its offset."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from heliograph.model.fill_way import FillWay
from heliograph.model.marker_label import marker_label
from heliograph.model.partition import TopicPartition
from heliograph.model.policy import DEFAULT_POLICY, Oversize, Timestamps
from heliograph.model.states import PartitionState, StopReason
from heliograph.wire.batch import BatchHeader, read_header
from heliograph.wire.compare import Allowed, first_difference
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.kernels.loading import wait
from tests.wire.message_sets import LEGACY_GZIP, Message, encode_message, encode_wrapper

from .lane_world import World, mirror, place, until, world, write
from .memory_log import MemoryLog, Stored
from .source_batches import LOG_APPEND_TIME, NOW_MS, batch, holed
from .test_gaps import Driver, until_copied
from .test_losses import Teller, markers_of

P0: TopicPartition = place(0)


def write_compacted(log: MemoryLog, rounds: int = 4) -> None:
    """Batches with holes, holes between batches, and an empty one that a cleaner has left."""
    for _ in range(rounds):
        write(log, 2)
        log.store(holed(log.end, [0, 1, 4, 5, 6, 9], 11))
        log.leave_out(5)
        log.store(batch(log.end, 30))
        log.store(holed(log.end, [], 3))
    write(log, 1)


def assert_same_view(it: World, *, allowed: Allowed = Allowed()) -> None:  # noqa: B008 - a value
    """Consumers read the same records at the same offsets."""
    source, target = it.source.logs[P0], it.target.logs[P0]
    assert target.end == source.end
    theirs, ours = ([memoryview(bytearray(each.data)) for each in log.batches] for log in (source, target))
    assert (
        first_difference(wait(), ours, theirs, first_offset=0, next_offset=source.end, allowed=allowed)
        is None
    )


def emptied(log: MemoryLog) -> list[int]:
    """Offsets that hold no record."""
    held = set()
    for stored in log.batches:
        if stored.header.is_dense:
            held |= set(range(stored.header.base_offset, stored.header.next_offset))
    return [offset for offset in range(log.start, log.end) if offset not in held]


def replace_by(log: MemoryLog, nth: int, left: list[int], **changed: int) -> BatchHeader:
    """What a cleaner leaves of one of the log's batches; its header."""
    before = log.batches[nth].header
    at = before.base_offset
    data = holed(at, left, before.last_offset_delta, **changed)
    header = read_header(memoryview(data))
    log.batches[nth] = Stored(header, bytes(data))
    return header


async def test_a_compacted_log_is_copied_with_markers_where_nothing_is() -> None:
    async with world() as it:
        it.create(0)
        write_compacted(it.source.logs[P0])
        copy = it.assign(0)
        await until_copied(it, copy, Driver(it))
        assert_same_view(it)
        await until(lambda: copy.state is PartitionState.CAUGHT_UP)
        markers = set(markers_of(it.target.logs[P0]))
        assert markers
        assert markers <= set(emptied(it.source.logs[P0]))


@pytest.mark.parametrize("stop_at", [1, 7, 20, 45, 60])
async def test_a_successor_goes_on_inside_of_what_was_one_batch_or_one_hole(stop_at: int) -> None:
    """The first one cuts batches small, and is stopped anywhere; the second takes them as large as they are."""
    async with world() as it:
        it.create(0)
        write_compacted(it.source.logs[P0])
        driver, target = Driver(it), it.target.logs[P0]
        refused = ErrorCode.NOT_ENOUGH_REPLICAS
        it.target.fault = lambda _where: refused if target.end >= stop_at else None
        it.target.marker_fault = lambda _where, _label: refused if target.end >= stop_at else None
        first = it.assign(0, max_batch_bytes=150)

        def half_way() -> bool:
            driver.grant()
            return target.end >= stop_at

        await until(half_way)
        await it.lane.revoke(mirror(0))
        assert first.stopped is None
        assert target.end < it.source.logs[P0].end
        it.target.fault = lambda _where: None
        it.target.marker_fault = lambda _where, _label: None
        copy = it.assign(0, gaps_filled=True)
        await until_copied(it, copy, driver)
        assert copy.stopped is None
        assert_same_view(it)


async def test_racing_lanes_that_cut_batches_differently_leave_one_copy() -> None:
    async with world() as it, world() as rival:
        it.create(0)
        log = it.source.logs[P0]
        for _ in range(6):
            log.store(batch(log.end, 20, attributes=LOG_APPEND_TIME))
            log.store(batch(log.end, 25))
        for side, other in ((it.source, rival.source), (it.target, rival.target)):
            other.logs, other.leaders, other.believed = side.logs, side.leaders, side.believed
        copies = [it.assign(0, max_batch_bytes=300), rival.assign(0, max_batch_bytes=500)]
        await until(lambda: it.is_copied(0))
        assert all(copy.stopped is None for copy in copies)
        assert_same_view(it)
        assert it.target.logs[P0].producers[copies[0].spec.producer_id].last_sequence == log.end - 1


async def test_a_log_that_starts_inside_of_a_batch_is_aligned_and_sliced() -> None:
    async with world() as it:
        it.create(0)
        log = it.source.logs[P0]
        log.store(batch(0, 50))
        write(log, 5)
        log.delete_before(30)
        copy = it.assign(0)
        await until(lambda: it.is_copied(0))
        await until(lambda: it.target.logs[P0].start == 30)
        assert copy.stopped is None
        ours = [memoryview(bytearray(each.data)) for each in it.target.logs[P0].batches]
        theirs = [memoryview(bytearray(each.data)) for each in log.batches]
        assert first_difference(wait(), ours, theirs, first_offset=30, next_offset=log.end) is None


async def test_log_append_time_is_equal_at_the_anchor() -> None:
    async with world() as it:
        it.create(0)
        log = it.source.logs[P0]
        for step in range(3):
            for _ in range(10):
                log.store(batch(log.end, 2, timestamp=NOW_MS - step, attributes=LOG_APPEND_TIME))
            copy = it.assign(0)
            await until(lambda: it.is_copied(0))
            assert copy.stopped is None
            await it.lane.revoke(mirror(0))
        assert_same_view(it)


@pytest.mark.parametrize("left", [[0, 3, 9], [], [9]])
async def test_what_compaction_took_after_it_was_copied_is_no_difference(left: list[int]) -> None:
    async with world() as it:
        it.create(0)
        log = it.source.logs[P0]
        log.store(batch(0, 10))
        it.assign(0)
        await until(lambda: it.is_copied(0))
        await it.lane.revoke(mirror(0))
        compacted = replace_by(log, 0, left)
        assert compacted.records_count == len(left)
        write(log, 3)
        copy = it.assign(0)
        await until(lambda: it.is_copied(0) or copy.stopped is not None)
        assert copy.stopped is None


async def test_a_record_that_differs_beside_holes_is_found_at_the_anchor() -> None:
    async with world() as it:
        it.create(0)
        log = it.source.logs[P0]
        log.store(batch(0, 10))
        it.assign(0)
        await until(lambda: it.is_copied(0))
        await it.lane.revoke(mirror(0))
        replace_by(log, 0, [0, 3, 9], timestamp=NOW_MS + 1)
        copy = it.assign(0)
        await until(lambda: copy.stopped is not None)
        assert copy.stopped is not None
        assert copy.stopped.reason == StopReason.ANCHOR
        assert "offset 0" in copy.stopped.message


async def test_a_target_that_was_compacted_goes_on() -> None:
    async with world() as it:
        it.create(0)
        log, target = it.source.logs[P0], it.target.logs[P0]
        log.store(batch(0, 10))
        it.assign(0)
        await until(lambda: it.is_copied(0))
        await it.lane.revoke(mirror(0))
        ours = target.batches[0].header
        replace_by(
            target,
            0,
            [2, 9],
            producer_id=ours.producer_id,
            producer_epoch=0,
            base_sequence=ours.base_sequence,
        )
        write(log, 3)
        copy = it.assign(0)
        await until(lambda: it.is_copied(0) or copy.stopped is not None)
        assert copy.stopped is None


async def test_a_marker_where_the_source_has_a_record_beside_holes_stops_the_partition() -> None:
    async with world() as it:
        it.create(0, 1)
        log, target = it.source.logs[P0], it.target.logs[P0]
        log.store(holed(log.end, [0, 4], 6))
        driver = Driver(it)
        copy = it.assign(0)
        await until_copied(it, copy, driver)
        await it.lane.revoke(mirror(0))
        replace_by(log, 1, [0, 4, 6])  # which no cleaner does
        copy = it.assign(0)
        await until(lambda: copy.stopped is not None)
        assert copy.stopped is not None
        assert copy.stopped.reason == StopReason.ANCHOR
        assert f"offset {target.end - 1}" in copy.stopped.message


@pytest.mark.parametrize(("compacts", "stops"), [(True, False), (False, True)])
async def test_a_replica_that_compacts_later_may_show_records_again_for_which_markers_are_there(
    compacts: bool, stops: bool
) -> None:
    async with world() as it:
        it.create(0, 1)
        log = it.source.logs[P0]
        log.store(holed(log.end, [0, 4], 6))
        driver = Driver(it)
        await until_copied(it, it.assign(0, source_compacts=compacts), driver)
        await it.lane.revoke(mirror(0))
        replace_by(log, 1, [0, 4, 5, 6])
        write(log, 2)
        copy = it.assign(0, source_compacts=compacts)
        await until(lambda: it.is_copied(0) or copy.stopped is not None)
        assert (copy.stopped is not None) is stops


async def test_a_lane_with_little_memory_copies_many_partitions_that_must_be_recoded() -> None:
    async with world(memory_bytes=1 << 18) as it:
        partitions = range(12)
        for partition in partitions:
            it.create(partition)
            log = it.source.logs[place(partition)]
            for _ in range(5):
                log.store(batch(log.end, 20, value_bytes=200, attributes=LOG_APPEND_TIME))
        copies = [it.assign(partition) for partition in partitions]
        await until(lambda: all(it.is_copied(partition) for partition in partitions))
        assert all(copy.stopped is None for copy in copies)
        budget = it.lane._budget
        await until(lambda: budget.merged_bytes == 0)


# -- what the target refuses

SKIPS = replace(DEFAULT_POLICY, oversize=Oversize.SKIP)
CLAMPS = replace(DEFAULT_POLICY, timestamps=Timestamps.CLAMP)
HOUR_MS = 3_600_000


@pytest.mark.parametrize("way", [FillWay.MARKERS, FillWay.TRANSACTIONS])
async def test_a_successor_behind_a_record_that_was_left_out_takes_the_marker_for_what_it_is(
    way: FillWay,
) -> None:
    async with world() as it:
        it.create(0, 2)
        log = it.source.logs[P0]
        log.store(batch(log.end, 1, value_bytes=1000))
        skipped_at = log.end - 1
        driver = Teller(it)
        how: dict[str, Any] = {"policy": SKIPS, "max_batch_bytes": 500, "fill_way": way}
        copy = it.assign(0, **how)
        await until_copied(it, copy, driver)
        await it.lane.revoke(mirror(0))
        assert markers_of(it.target.logs[P0]) == [skipped_at]
        write(log, 2)
        copy = it.assign(0, **how)
        await until_copied(it, copy, driver)
        assert copy.stopped is None


async def test_a_limit_that_was_raised_since_makes_no_damage_of_a_record_that_was_left_out() -> None:
    async with world() as it:
        it.create(0, 2)
        log = it.source.logs[P0]
        log.store(batch(log.end, 1, value_bytes=1000))
        driver = Teller(it)
        await until_copied(it, it.assign(0, policy=SKIPS, max_batch_bytes=500), driver)
        await it.lane.revoke(mirror(0))
        write(log, 2)
        copy = it.assign(0, policy=SKIPS)
        await until_copied(it, copy, driver)
        assert copy.stopped is None


async def test_a_marker_for_another_offset_in_the_place_of_a_record_stops_also_where_some_are_left_out() -> (
    None
):
    async with world() as it:
        it.create(0, 2)
        log, target = it.source.logs[P0], it.target.logs[P0]
        copy = it.assign(0, policy=SKIPS)
        await until(lambda: it.is_copied(0))
        await it.lane.revoke(mirror(0))
        write(log, 2)
        target.write_marker(marker_label(copy.spec.producer_id, target.end - 1, 3))
        copy = it.assign(0, policy=SKIPS)
        await until(lambda: copy.stopped is not None)
        assert copy.stopped is not None
        assert copy.stopped.reason == StopReason.ANCHOR


async def test_times_that_were_clamped_are_known_again_at_the_anchor() -> None:
    async with world() as it:
        it.create(0)
        log = it.source.logs[P0]
        driver = Driver(it)
        for step in range(3):
            write(log, 2)
            log.store(batch(log.end, 4, timestamp=NOW_MS + (step + 2) * HOUR_MS))
            copy = it.assign(0, policy=CLAMPS, after_max_ms=HOUR_MS)
            await until_copied(it, copy, driver)
            assert copy.stopped is None
            await it.lane.revoke(mirror(0))
        assert_same_view(it, allowed=Allowed(clamped=True))
        assert max(each.header.max_timestamp for each in it.target.logs[P0].batches) <= NOW_MS + 2 * HOUR_MS


# -- old message formats


async def test_a_successor_behind_old_messages_compares_them_as_batches() -> None:
    async with world() as it:
        it.create(0)
        log = it.source.logs[P0]
        for step in range(4):
            at = log.end
            messages: list[Message] = [(b"k", b"%d" % (at + nth), NOW_MS + nth) for nth in range(5)]
            for magic, codec in ((1, LEGACY_GZIP), (1, 0)):
                offsets = range(log.end, log.end + 5)
                if codec:
                    log.store_as_it_is(encode_wrapper(messages, offsets=offsets, magic=magic, codec=codec))
                else:
                    for each, offset in zip(messages, offsets, strict=True):
                        log.store_as_it_is(encode_message(each, offset=offset, magic=magic))
            copy = it.assign(0, max_batch_bytes=150 if step % 2 else 1 << 20)
            await until(lambda copy=copy: it.is_copied(0) or copy.stopped is not None)  # type: ignore[misc]
            assert copy.stopped is None
            await it.lane.revoke(mirror(0))
        assert it.target.logs[P0].end == log.end == 40
