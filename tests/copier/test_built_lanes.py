"""A lane builds a compacted partition: whatever interrupts it, and however old the records are, all offsets up to the
last hole are filled in the end, once, with the source's records at their offsets (P1, P2, P4)."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest

from heliograph.cluster.log_reads import Batches
from heliograph.copier import resynchroniser, sealing
from heliograph.copier.lease import Lease
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.model.errors import Disconnected
from heliograph.model.events import Event, Trouble
from heliograph.model.fill_way import FillWay
from heliograph.model.partition import TopicPartition
from heliograph.model.states import BuildPhase, StopReason
from heliograph.wire.batch import Codec
from heliograph.wire.compare_dense import dense_difference
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.kernels.loading import Kernels, wait

from .lane_world import LINK, Clock, World, mirror, place, refuse, until, world, write
from .memory_log import MemoryLog
from .source_batches import (
    AWAY,
    BROKEN,
    DAY_MS,
    NOW_MS,
    NOW_S,
    OLD_MS,
    batch,
    give,
    holed,
    spec_of,
    synced_at,
)
from .test_building import SKIP
from .test_gaps import Driver
from .test_losses import CONTINUE, WAYS, Teller

GZIP = int(Codec.GZIP)
GRANTED_S = 6.0  # what a driver's word lasts


@pytest.fixture(scope="module", autouse=True)
def kernels() -> Kernels:
    """Loaded before the first lane runs: that takes longer than a test waits."""
    return wait()


@pytest.fixture(autouse=True)
def no_margin_for_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is one clock only: a marker waits for no longer than `segment.ms` behind the newest record."""
    monkeypatch.setattr(sealing, "CLOCKS_DIFFER_MS", 0)
    monkeypatch.setattr(resynchroniser, "TIME_LOOK_S", 0.02)


def compacted(log: MemoryLog, *, timestamp: int = NOW_MS, rounds: int = 3) -> None:
    """A dense stretch, which stands apart by its codec, a batch with holes and a hole behind it, again and again; then
    a dense tail of today."""
    for _ in range(rounds):
        for _ in range(5):
            log.store(batch(log.end, 4, timestamp=timestamp, codec=GZIP))
        log.store(holed(log.end, [1, 3], 6, timestamp=timestamp))
        log.leave_out(10)
    for _ in range(5):
        log.store(batch(log.end, 4))


def last_hole_end(log: MemoryLog) -> int:
    return log.batches[-5].header.base_offset


def assign(it: World, *, clear_in_s: float = 0.0, **changed: Any) -> PartitionCopy:
    return it.assign(0, clear_in_s=clear_in_s, builds=True, **changed)


def is_filled(copy: PartitionCopy) -> bool:
    aligning = copy.aligning(NOW_S)
    return aligning is not None and aligning.phase == BuildPhase.FILLED


async def until_filled(
    it: World, copy: PartitionCopy, clock: Clock | None = None, driver: Driver | None = None
) -> None:
    """With a driver that answers as it should: an exclusive lease to who wants one, attempts to who needs them."""
    driver = driver or Driver(it)

    def done() -> bool:
        if clock is not None:
            it.lane.renew(LINK, clock.now, GRANTED_S if it.lane.wants_exclusion() else 0.0)
        driver.grant()
        assert copy.stopped is None
        return is_filled(copy)

    await until(done)


def assert_built(it: World, kernels: Kernels, *, end: int | None = None) -> None:
    """The target ends where the source's last hole does, in a marker, and fits the source before it."""
    source, target = it.source.logs[place(0)], it.target.logs[place(0)]
    assert target.end == (last_hole_end(source) if end is None else end)
    assert [stored.header.base_offset for stored in target.batches if stored.header.is_control] == [
        target.end - 1
    ]
    theirs = [(stored.header, memoryview(stored.data)) for stored in source.batches]
    ours = b"".join(stored.data for stored in target.batches)
    first, last = source.start, max(source.start, target.end - 1)
    assert dense_difference(kernels, memoryview(ours), theirs, first_offset=first, next_offset=last) is None


async def test_a_compacted_partition_is_filled_up_to_its_last_hole(kernels: Kernels) -> None:
    async with world() as it:
        it.create(0)
        compacted(it.source.logs[place(0)])
        await until_filled(it, assign(it))
        assert_built(it, kernels)


async def test_old_dense_stretches_wait_until_appends_of_the_last_holder_are_over(kernels: Kernels) -> None:
    async with world() as it:
        it.create(0)
        compacted(it.source.logs[place(0)], timestamp=OLD_MS)
        copy = assign(it, clear_in_s=0.3)
        await until(lambda: copy.awaits_clearance)
        assert copy.bound_by(NOW_S) is None
        assert it.target.logs[place(0)].end == 0
        await until_filled(it, copy)
        assert_built(it, kernels)


async def test_old_dense_stretches_ask_for_the_exclusive_lease_that_they_need(kernels: Kernels) -> None:
    """Also where all that waits behind them is of today."""
    clock = Clock()
    async with world(lease=Lease(clock)) as it:
        it.create(0)
        log = it.source.logs[place(0)]
        for _ in range(5):
            log.store(batch(log.end, 4, timestamp=OLD_MS))
        compacted(log)
        it.lane.renew(LINK, clock.now, 0)  # a word of the driver, but no right
        copy = assign(it)
        await until(lambda: bool(it.lane.wants_exclusion()))
        assert copy.awaits_lease
        assert copy.bound_by(NOW_S) is None
        assert it.target.logs[place(0)].end == 0
        await until_filled(it, copy, clock)
        assert_built(it, kernels)


# -- losses


async def half_built(it: World) -> int:
    """A build that was interrupted; where its target ends."""
    it.create(0)
    compacted(it.source.logs[place(0)], timestamp=OLD_MS)
    refuse(it.target, ErrorCode.NOT_ENOUGH_REPLICAS, lambda nth: nth >= 2)
    copy = assign(it)
    await until(lambda: copy.trouble is not None)
    await it.lane.revoke(mirror(0))
    it.target.fault = lambda _where: None
    at = it.target.logs[place(0)].end
    assert 0 < at < last_hole_end(it.source.logs[place(0)])
    return at


@pytest.mark.parametrize("way", WAYS)
async def test_an_accepted_loss_amid_a_build_gets_fillers_like_any_hole(
    kernels: Kernels, way: FillWay
) -> None:
    async with world() as it:
        at = await half_built(it)
        it.source.logs[place(0)].delete_before(at + 3)
        driver = Teller(it)
        copy = assign(it, policy=CONTINUE, fill_way=way)
        await until_filled(it, copy, driver=driver)
        assert driver.told == [(at, at + 3)]
        assert_built(it, kernels)


@pytest.mark.parametrize("way", WAYS)
async def test_a_loss_amid_a_build_without_a_hole_behind_it_leaves_nothing_to_clean(way: FillWay) -> None:
    """Nothing is left of the target that the source holds: it is aligned anew, and the fillers that it had are gone."""
    async with world() as it:
        at = await half_built(it)
        log = it.source.logs[place(0)]
        start = last_hole_end(log) + 4
        log.delete_before(start)
        driver = Teller(it)
        copy = assign(it, policy=CONTINUE, fill_way=way)
        await until_filled(it, copy, driver=driver)
        assert driver.told == [(at, start)]
        target = it.target.logs[place(0)]
        assert (target.start, target.end, target.batches) == (start, start, [])


async def test_a_loss_amid_a_build_is_not_filled_before_the_driver_has_heard_of_it() -> None:
    async with world() as it:
        at = await half_built(it)
        it.source.logs[place(0)].delete_before(at + 3)
        copy = assign(it, policy=CONTINUE)
        await until(lambda: copy.wants_attempt)
        assert copy.bound_by(NOW_S) is None
        await asyncio.sleep(0.05)
        assert it.target.logs[place(0)].end == at


async def test_a_source_that_starts_later_while_its_target_ends_in_fillers_is_aligned_to_anew(
    kernels: Kernels,
) -> None:
    """As an alignment under way is: nobody has read of the target yet, and it begins where the source does."""
    async with world() as it:
        it.create(0)
        log = it.source.logs[place(0)]
        log.store(batch(0, 4))
        log.leave_out(250_000)
        compacted(log)
        refuse(it.target, ErrorCode.NOT_ENOUGH_REPLICAS, lambda nth: nth >= 2)
        first = assign(it)
        await until(lambda: first.trouble is not None)
        await it.lane.revoke(mirror(0))
        it.target.fault = lambda _where: None
        assert it.target.logs[place(0)].end == 200_000
        log.delete_before(log.batches[3].header.base_offset)
        await until_filled(it, assign(it))
        assert it.target.logs[place(0)].start == log.start
        assert_built(it, kernels)


# -- records that are too large


async def test_a_record_that_is_left_out_of_a_build_keeps_all_others_at_their_offsets(
    kernels: Kernels,
) -> None:
    """Also with a successor that finds its marker at the target's end, and one that finds it further back."""
    async with world() as it:
        it.create(0)
        log = it.source.logs[place(0)]
        log.store(holed(0, [1], 3))
        log.store(batch(log.end, value_bytes=900))
        log.store(holed(log.end, [1], 3))
        log.store(batch(log.end, 2, codec=GZIP))
        compacted(log)
        target = it.target.logs[place(0)]
        driver = Teller(it)
        for end in (5, 9):
            refuse(it.target, ErrorCode.NOT_ENOUGH_REPLICAS, lambda _, end=end: target.end >= end)  # type: ignore[misc]
            copy = assign(it, max_batch_bytes=600, policy=SKIP)

            def reached(end: int = end) -> bool:
                driver.grant()
                return target.end >= end

            await until(reached)
            await it.lane.revoke(mirror(0))
            assert copy.stopped is None
        it.target.fault = lambda _where: None
        await until_filled(it, assign(it, max_batch_bytes=600, policy=SKIP), driver=driver)
        assert target.end == last_hole_end(log)
        markers = [stored.header.base_offset for stored in target.batches if stored.header.is_control]
        assert markers == [4, target.end - 1]
        ours = memoryview(b"".join(stored.data for stored in target.batches))
        theirs = [
            (stored.header, memoryview(stored.data))
            for stored in log.batches
            if stored.header.base_offset != 4
        ]
        last = target.end - 1
        assert dense_difference(kernels, ours, theirs, first_offset=0, next_offset=last) is None


# -- the search for the last hole


class Reads:
    """What is read of the source's batches, as a lane asks for them, and what its copy says meanwhile."""

    def __init__(self, it: World) -> None:
        self.next_offsets: list[int] = []
        self.phases: list[str | None] = []
        self.fail_at = 0
        self._it = it
        self._read = it.source.batches_in
        it.source.batches_in = self  # type: ignore[method-assign,assignment]

    async def __call__(
        self, where: TopicPartition, first: int, stop: int, *, committed: bool = False
    ) -> Batches:
        aligning = self._it.lane.copies[mirror(0)].aligning(NOW_S)
        self.phases.append(aligning.phase if aligning is not None else None)
        self.next_offsets.append(stop)
        if len(self.next_offsets) == self.fail_at:
            raise Disconnected("broker 1 is gone")
        return await self._read(where, first, stop, committed=committed)


async def test_a_search_for_the_last_hole_is_shown_and_goes_on_where_it_was_interrupted(
    kernels: Kernels,
) -> None:
    async with world() as it:
        it.create(0)
        log = it.source.logs[place(0)]
        compacted(log)
        hole_end = last_hole_end(log)
        write(log, 60)
        reads = Reads(it)
        reads.fail_at = 4
        await until_filled(it, assign(it))
        assert reads.next_offsets[3] == reads.next_offsets[4]  # asked for again, and nothing above it
        assert max(reads.next_offsets[4:]) == reads.next_offsets[4] < log.end
        assert reads.phases[:6] == [BuildPhase.SEARCHING] * 6
        assert_built(it, kernels, end=hole_end)


async def test_a_new_leader_of_the_source_is_searched_anew() -> None:
    async with world() as it:
        it.create(0)
        compacted(it.source.logs[place(0)])
        reads = Reads(it)
        copy = assign(it)
        await until_filled(it, copy)
        known = len(reads.next_offsets)
        copy.interrupted(AWAY)
        it.lane._attend(copy)
        await until(lambda: is_filled(copy) and not copy.wants_resync)
        end = it.source.logs[place(0)].end
        assert end not in reads.next_offsets[known:]
        it.source.move(place(0), 2)
        await it.source.refresh()
        await until(lambda: end in reads.next_offsets[known:])


# -- times of records (copier/sealing.py)


@pytest.mark.parametrize("ahead_ms", [-500, 500])
async def test_the_last_marker_waits_for_the_time_of_the_newest_record(
    kernels: Kernels, ahead_ms: int
) -> None:
    """A record that was written just now, or that is dated a little ahead, may be what the last segment begins with."""
    async with world() as it:
        it.create(0)
        dated_ms = time.time_ns() // 1_000_000 + ahead_ms
        compacted(it.source.logs[place(0)], timestamp=dated_ms, rounds=1)
        copy = assign(it)
        await until_filled(it, copy)
        assert time.time_ns() // 1_000_000 > dated_ms + sealing.SEGMENT_MS
        [told] = {each.event for each in copy.take_begun() if isinstance(each, Trouble)}
        assert told is Event.TIME_WAIT
        assert_built(it, kernels)


async def test_fillers_that_brokers_would_never_remove_stop_the_partition_at_once() -> None:
    """A record of the next year is what the last segment begins with. Whoever resumes it finds the same."""
    async with world() as it:
        it.create(0)
        compacted(it.source.logs[place(0)], timestamp=NOW_MS + 365 * DAY_MS, rounds=1)
        driver = Driver(it)
        for _ in range(2):
            copy = assign(it)

            def stopped(copy: PartitionCopy = copy) -> bool:
                driver.grant()
                assert not is_filled(copy)
                return copy.stopped is not None

            await until(stopped)
            assert copy.stopped is not None
            assert copy.stopped.reason is StopReason.BUILD
            await it.lane.revoke(mirror(0))


# -- markers of the last holder


@pytest.mark.parametrize("at", [18, 19])
def test_no_filler_goes_where_a_marker_of_the_last_holder_may_come(at: int) -> None:
    """It has taken offset 19 for the end of the last hole; by now that is later. Its marker is compared with no filler,
    and would take the offset of a record. At 18 there is a record: no marker can be on its way."""
    copy = PartitionCopy(replace(spec_of(), builds=True), 1 << 20, clear_at=NOW_S + 30)
    copy.synced(synced_at(at, state_ms=NOW_MS, build_to=40), NOW_MS)
    give(copy, batch(18), holed(25, [1], 3), batch(40))
    assert (copy.peek() is None, copy.awaits_clearance) == (at == 19, at == 19)
    if at == 19:
        assert copy.bound_by(NOW_S) is None
        copy.cleared(NOW_S + 30)
        copy.synced(synced_at(at, state_ms=NOW_MS, build_to=40), NOW_MS)
        give(copy, holed(25, [1], 3), batch(40))
        assert copy.peek() is not None


def test_a_target_that_is_aligned_anew_waits_for_a_marker_of_the_last_holder_too() -> None:
    copy = PartitionCopy(replace(spec_of(), builds=True), 1 << 20, clear_at=NOW_S + 30)
    copy.synced(synced_at(19, state_ms=NOW_MS, build_to=60, align_to=40), NOW_MS)
    assert (copy.peek(), copy.awaits_clearance) == (None, True)


def test_lost_appends_of_our_own_are_compared_with_fillers_and_hold_up_nobody() -> None:
    copy = PartitionCopy(replace(spec_of(), builds=True), 1 << 20, flight_s=30.0)
    copy.synced(synced_at(0, state_ms=NOW_MS, build_to=40), NOW_MS)
    give(copy, holed(0, [1], 9), batch(40))
    copy.take()
    copy.lost(BROKEN, NOW_S)
    copy.synced(synced_at(0, state_ms=NOW_MS, build_to=40), NOW_MS)
    give(copy, holed(0, [1], 9), batch(40))
    assert copy.peek() is not None
