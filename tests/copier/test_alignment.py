"""A new mirror of a log that starts above 0 begins at the source's own offset (P4), and no filler stays."""

from __future__ import annotations

from functools import partial

import pytest

from heliograph.copier import alignment
from heliograph.copier.lease import Lease
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.model.states import PartitionState, StopReason
from heliograph.wire.batch import Codec
from heliograph.wire.codecs import compress
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.filler import filler_batch
from tests.wire.batches import make_batch

from .lane_world import LINK, Clock, World, mirror, place, until, world, write
from .memory_log import MemoryLog
from .source_batches import NOW_MS, OLD_MS, OURS, spec_of, synced_at


@pytest.fixture(autouse=True)
def small_fillers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alignment, "MOST_RECORDS", 10)


def starting_at(log: MemoryLog, offset: int) -> None:
    log.start = log.end = offset
    log.batches.clear()


def make(it: World, start: int, batches: int = 5) -> MemoryLog:
    it.create(0)
    log = it.source.logs[place(0)]
    starting_at(log, start)
    write(log, batches)
    return log


def assert_aligned(it: World, start: int) -> None:
    source, target = it.source.logs[place(0)], it.target.logs[place(0)]
    assert (target.start, target.end) == (start, source.end)
    it.assert_identical(0)


async def test_the_target_begins_where_the_source_does() -> None:
    async with world() as it:
        make(it, 47)
        copy = it.assign(0)
        await until(lambda: it.is_copied(0))
        await until(lambda: copy.state is PartitionState.CAUGHT_UP)
        assert_aligned(it, 47)
        assert copy.records == sum(s.header.records_count for s in it.source.logs[place(0)].batches)
        # After each filler all before the last one; the rest when the source has shown that it begins there.
        offsets = [offset for _, offset in it.target.deletions]
        assert offsets == sorted(offsets)
        assert offsets[-1] == 47


async def test_how_far_an_alignment_is_can_be_read() -> None:
    async with world() as it:
        make(it, 40)
        it.target.fault = lambda where: (
            ErrorCode.NOT_ENOUGH_REPLICAS if it.target.logs[where].end >= 20 else None
        )
        copy = it.assign(0)
        await until(lambda: copy.next_offset == 20)
        assert copy.state is PartitionState.ALIGNING
        first = copy.aligning(100.0)
        assert first is not None
        assert (first.phase, first.done, first.total, first.eta_s) == ("filling", 20, 40, None)
        it.target.fault = lambda _where: None
        await until(lambda: it.is_copied(0))
        assert copy.aligning(101.0) is None


async def test_an_empty_source_leaves_an_empty_target_at_its_offset() -> None:
    async with world() as it:
        make(it, 33, batches=0)
        copy = it.assign(0)
        await until(lambda: copy.state is PartitionState.CAUGHT_UP)
        target = it.target.logs[place(0)]
        assert (target.start, target.end, target.batches) == (33, 33, [])


async def test_a_source_that_starts_later_meanwhile_is_followed() -> None:
    """Retention goes on while fillers are written: nothing was copied yet, so nothing is lost."""
    async with world() as it:
        log = make(it, 25, batches=20)
        it.source.fetch_error[place(0)] = ErrorCode.OFFSET_OUT_OF_RANGE
        copy = it.assign(0)
        await until(lambda: it.target.logs[place(0)].end == 25)
        new_start = log.batches[7].header.base_offset
        log.delete_before(new_start)
        it.source.fetch_error.clear()
        await until(lambda: it.is_copied(0))
        assert copy.stopped is None
        assert_aligned(it, new_start)


@pytest.mark.parametrize("filled", [10, 20, 25])
async def test_a_successor_goes_on_with_an_alignment(filled: int) -> None:
    async with world() as it:
        make(it, 25)
        it.target.fault = lambda where: (
            ErrorCode.NOT_ENOUGH_REPLICAS if it.target.logs[where].end >= filled else None
        )
        it.source.fetch_error[place(0)] = ErrorCode.OFFSET_OUT_OF_RANGE
        it.assign(0)
        await until(lambda: it.target.logs[place(0)].end == filled)
        await it.lane.revoke(mirror(0))
        it.target.fault = lambda _where: None
        it.source.fetch_error.clear()
        copy = it.assign(0)
        await until(lambda: it.is_copied(0))
        assert copy.stopped is None
        assert_aligned(it, 25)


async def test_records_that_retention_overtook_are_no_alignment() -> None:
    async with world() as it:
        it.create(0, 5)
        it.assign(0)
        await until(lambda: it.is_copied(0))
        await it.lane.revoke(mirror(0))
        log = it.source.logs[place(0)]
        starting_at(log, log.end + 10)
        write(log, 2)
        copy = it.assign(0)
        await until(lambda: copy.stopped is not None)
        assert copy.stopped is not None
        assert copy.stopped.reason == StopReason.LOST


async def test_empty_records_of_the_source_are_not_taken_for_fillers() -> None:
    async with world() as it:
        it.create(0)
        log = it.source.logs[place(0)]
        nothing = [(None, None, ())] * 3
        log.store(
            make_batch(nothing, timestamp=NOW_MS, codec=Codec.ZSTD, compress=partial(compress, Codec.ZSTD))
        )
        it.assign(0)
        await until(lambda: it.is_copied(0))
        await it.lane.revoke(mirror(0))
        starting_at(log, 9)
        copy = it.assign(0)
        await until(lambda: copy.stopped is not None)
        assert copy.stopped is not None
        assert copy.stopped.reason == StopReason.LOST


async def test_the_last_filler_stays_while_old_records_wait_for_their_lease() -> None:
    """Retention may move the source's start meanwhile: an alignment goes on, and nothing was lost."""
    clock = Clock()
    async with world(lease=Lease(clock)) as it:
        it.create(0)
        log = it.source.logs[place(0)]
        starting_at(log, 25)
        write(log, 20, timestamp=OLD_MS)
        it.lane.renew(LINK, clock.now, 0.0)
        copy = it.assign(0)
        await until(lambda: copy.awaits_lease)
        assert it.target.logs[place(0)].batches  # it shows whoever comes that an alignment is under way
        new_start = log.batches[7].header.base_offset
        log.delete_before(new_start)
        it.lane.renew(LINK, clock.now, 10.0)
        await until(lambda: it.is_copied(0))
        assert copy.stopped is None
        assert_aligned(it, new_start)


def test_a_filler_that_is_answered_as_a_duplicate_may_be_a_rivals_first_record() -> None:
    copy = PartitionCopy(spec_of(), 1 << 20)
    copy.synced(synced_at(0, align_to=5), NOW_MS)
    copy.take()
    copy.appended(0, NOW_MS - 1000)  # the time of the batch that is there
    assert copy.wants_resync
    assert copy.delete_before is None


@pytest.mark.parametrize("kept", [0, 10, 20])
async def test_fillers_that_a_broker_shows_again_are_deleted_again(kept: int) -> None:
    """It was killed before it had written down where the log starts; some segments are gone for good."""
    async with world() as it:
        make(it, 47, batches=30)
        it.assign(0)
        await until(lambda: it.is_copied(0))
        await it.lane.revoke(mirror(0))
        target = it.target.logs[place(0)]
        fillers = [
            filler_batch(10, producer_id=OURS, producer_epoch=0, base_sequence=at, timestamp_ms=NOW_MS)
            for at in range(kept, 40, 10)
        ] + [filler_batch(7, producer_id=OURS, producer_epoch=0, base_sequence=40, timestamp_ms=NOW_MS)]
        data, target.batches, target.end = target.batches, [], kept
        for each in fillers:
            target.store(each)
        assert target.end == 47
        target.batches += data
        target.start, target.end = kept, it.source.logs[place(0)].end
        copy = it.assign(0)
        await until(lambda: target.start == 47)
        assert copy.stopped is None
        write(it.source.logs[place(0)], 2)
        await until(lambda: it.is_copied(0))
        assert_aligned(it, 47)


async def test_a_missing_right_to_delete_stops_the_partition_and_names_it() -> None:
    async with world() as it:
        make(it, 25)
        it.target.delete_error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        copy = it.assign(0)
        await until(lambda: copy.stopped is not None)
        assert copy.stopped is not None
        assert "DELETE" in copy.stopped.hint


async def test_a_slow_follower_does_not_hold_up_the_first_record() -> None:
    async with world() as it:
        make(it, 25)
        it.target.delete_error = ErrorCode.REQUEST_TIMED_OUT
        it.assign(0)
        await until(lambda: it.is_copied(0))
