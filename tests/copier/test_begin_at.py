"""A new mirror begins where it is told to (P4), though the source holds records before that, and no filler stays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heliograph.copier import alignment
from heliograph.copier.questions import ReadTargetBatches
from heliograph.copier.spec import CopySpec
from heliograph.model.states import PartitionState, StopReason
from heliograph.wire.batch import payload_equal, read_header
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.filler import filler_batch
from tests.wire.batches import COMMIT

from .lane_world import World, mirror, place, until, world, write
from .memory_log import MemoryLog
from .source_batches import NOW_MS, OURS
from .test_gaps import ONE, Driver, end, until_copied
from .two_logs import SPEC, Logs, ask, found_by, log_of, state, stop_of


@pytest.fixture(autouse=True)
def small_fillers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alignment, "MOST_RECORDS", 10)


def make(it: World, batches: int = 30) -> tuple[MemoryLog, MemoryLog]:
    it.create(0, batches)
    return it.source.logs[place(0)], it.target.logs[place(0)]


def border(log: MemoryLog, nth: int) -> int:
    return log.batches[nth].header.base_offset


def assert_begins(source: MemoryLog, target: MemoryLog, goal: int) -> None:
    assert (target.start, target.end) == (goal, source.end)
    wanted = [stored for stored in source.batches if stored.header.base_offset >= goal]
    assert [s.header.base_offset for s in wanted] == [t.header.base_offset for t in target.batches]
    for theirs, ours in zip(wanted, target.batches, strict=True):
        assert payload_equal(memoryview(theirs.data), memoryview(ours.data))


async def test_the_target_begins_at_the_goal_though_the_source_holds_more() -> None:
    async with world() as it:
        source, target = make(it)
        goal = border(source, 13)
        copy = it.assign(0, begin_at=goal)
        await until(lambda: copy.state is PartitionState.CAUGHT_UP)
        assert_begins(source, target, goal)
        assert copy.records == sum(s.header.records_count for s in source.batches[13:])
        offsets = [offset for _, offset in it.target.deletions]
        assert offsets == sorted(offsets)
        assert offsets[-1] == goal
        write(source, 3)
        await until(lambda: it.is_copied(0))
        assert_begins(source, target, goal)


async def test_a_mirror_that_begins_at_the_sources_end_waits_there() -> None:
    async with world() as it:
        source, target = make(it)
        goal = source.end
        copy = it.assign(0, begin_at=goal)
        await until(lambda: copy.state is PartitionState.CAUGHT_UP)
        assert (target.start, target.end, target.batches) == (goal, goal, [])
        write(source, 3)
        await until(lambda: it.is_copied(0))
        assert_begins(source, target, goal)


async def test_a_goal_below_the_sources_start_is_the_sources_start() -> None:
    async with world() as it:
        source, target = make(it)
        start = border(source, 13)
        source.delete_before(start)
        copy = it.assign(0, begin_at=border(source, 0) - 3)
        await until(lambda: copy.state is PartitionState.CAUGHT_UP)
        assert_begins(source, target, start)


async def test_a_source_that_starts_above_the_goal_meanwhile_is_followed() -> None:
    async with world() as it:
        source, target = make(it)
        goal = border(source, 10)
        it.source.fetch_error[place(0)] = ErrorCode.OFFSET_OUT_OF_RANGE
        copy = it.assign(0, begin_at=goal)
        await until(lambda: target.end == goal)
        later = border(source, 17)
        source.delete_before(later)
        it.source.fetch_error.clear()
        await until(lambda: it.is_copied(0))
        assert copy.stopped is None
        assert_begins(source, target, later)


@pytest.mark.parametrize("filled", [10, 20, 25])
async def test_a_successor_goes_on_with_an_alignment_above_the_sources_start(filled: int) -> None:
    async with world() as it:
        source, target = make(it)
        goal = next(s.header.base_offset for s in source.batches if s.header.base_offset >= 25)
        it.target.fault = lambda where: (
            ErrorCode.NOT_ENOUGH_REPLICAS if it.target.logs[where].end >= filled else None
        )
        it.source.fetch_error[place(0)] = ErrorCode.OFFSET_OUT_OF_RANGE
        it.assign(0, begin_at=goal)
        await until(lambda: target.end >= filled)
        await it.lane.revoke(mirror(0))
        it.target.fault = lambda _where: None
        it.source.fetch_error.clear()
        copy = it.assign(0, begin_at=goal)
        await until(lambda: it.is_copied(0))
        assert copy.stopped is None
        assert_begins(source, target, goal)


async def test_an_aligned_target_whose_broker_forgot_us_is_written() -> None:
    """All fillers are deleted: nothing there shows who wrote it."""
    async with world() as it:
        source, target = make(it)
        goal = source.end
        copy = it.assign(0, begin_at=goal)
        await until(lambda: copy.state is PartitionState.CAUGHT_UP)
        await it.lane.revoke(mirror(0))
        target.producers.clear()
        write(source, 3)
        copy = it.assign(0, begin_at=goal)
        await until(lambda: it.is_copied(0))
        assert copy.stopped is None
        assert_begins(source, target, goal)


@pytest.mark.parametrize("first", ["records", "a gap"])
@pytest.mark.parametrize("kept", [0, 10])
async def test_fillers_below_the_goal_that_a_broker_shows_again_are_deleted_again(
    first: str, kept: int
) -> None:
    async with world() as it:
        source, target = make(it)
        goal = source.end
        if first == "records":
            write(source, 3)
        else:
            end(source, ONE, COMMIT)
        copy = it.assign(0, begin_at=goal)
        await until_copied(it, copy, Driver(it))
        await it.lane.revoke(mirror(0))
        behind, target.batches, target.end = target.batches, [], kept
        while target.end < goal:
            count = min(10, goal - target.end)
            target.store(
                filler_batch(
                    count, producer_id=OURS, producer_epoch=0, base_sequence=target.end, timestamp_ms=NOW_MS
                )
            )
        target.batches += behind
        target.start, target.end = kept, source.end
        copy = it.assign(0, begin_at=goal)
        await until(lambda: target.start == goal or copy.stopped is not None)
        assert copy.stopped is None
        assert it.target.deletions[-1] == (place(0), goal)


def goal_at(begin_at: int | None) -> CopySpec:
    return replace(SPEC, begin_at=begin_at)


def aligned_to(filled: int) -> Logs:
    """The source holds [0, 6) in three batches, the target so many fillers."""
    view = memoryview(
        filler_batch(filled, producer_id=OURS, producer_epoch=0, base_sequence=0, timestamp_ms=NOW_MS)
    )
    return Logs(log_of([2, 3, 1]), [(read_header(view), view)], state(filled - 1))


def test_a_goal_that_was_forgotten_stops_the_partition_and_says_so() -> None:
    logs = aligned_to(5)
    stop = stop_of(logs)
    assert stop.reason == StopReason.LOG_START
    assert "is not known any more" in stop.message
    logs = replace(aligned_to(5), spec=goal_at(5))
    assert (ask(logs), found_by(logs).align_to) == (5, 5)


def test_an_alignment_that_is_higher_than_its_goal_stops_the_partition() -> None:
    assert stop_of(replace(aligned_to(5), spec=goal_at(2))).reason == StopReason.LOG_START


def test_fillers_that_the_source_itself_has_shown_are_records_like_others() -> None:
    """It is a mirror, and was being aligned when it was copied."""
    logs = aligned_to(5)
    logs = replace(logs, source=logs.target)
    assert (ask(logs), found_by(logs).align_to) == (5, None)


def test_a_target_in_good_order_is_not_searched_for_fillers() -> None:
    target = log_of([2, 3], producer_id=OURS, producer_epoch=0)[1:]
    logs = Logs(log_of([2, 3, 1]), target, state(4), target_start=2, spec=goal_at(2))
    assert found_by(logs).fillers_end is None
    assert sum(isinstance(each, ReadTargetBatches) for each in logs.asked) == 1
