"""Gaps that transactions leave in the source are filled with markers, and every record keeps its offset (P2, P4)."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from heliograph.cluster.markers import FEW_MARKERS
from heliograph.copier import fill, marker_line
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.model import marker_label
from heliograph.model.marker_label import MarkerLabel
from heliograph.model.partition import MirrorPartition, TopicPartition
from heliograph.model.states import PartitionState, StopReason
from heliograph.wire.error_codes import ErrorCode
from tests.wire.batches import ABORT, COMMIT, TRANSACTIONAL, make_control_batch

from .lane_world import World, mirror, place, until, world, write
from .memory_log import MemoryLog
from .source_batches import batch

ONE, OTHER = 7001, 7002  # producers with transactions at the source


def in_transaction(log: MemoryLog, producer_id: int, records: int) -> None:
    log.store(batch(log.end, records, producer_id=producer_id, attributes=TRANSACTIONAL))


def end(log: MemoryLog, producer_id: int, kind: int) -> None:
    log.store(make_control_batch(kind, base_offset=log.end, producer_id=producer_id))


def write_transactions(log: MemoryLog, rounds: int = 3) -> None:
    """Two producers in turn, one of which aborts; records of neither in between."""
    for _ in range(rounds):
        first = log.end
        in_transaction(log, ONE, 2)
        in_transaction(log, OTHER, 3)
        log.aborted.append((OTHER, first + 2))
        write(log, 1)
        in_transaction(log, ONE, 1)
        end(log, OTHER, ABORT)
        in_transaction(log, OTHER, 2)
        end(log, ONE, COMMIT)
        end(log, OTHER, COMMIT)


class Driver:
    """Grants attempts as a driver does: each one once."""

    def __init__(self, it: World) -> None:
        self._lane = it.lane
        self._next = itertools.count()

    def grant(self) -> None:
        for key, above in self._lane.take_attempt_wants():
            self._lane.grant_attempt(key, next(each for each in self._next if each > above))


async def until_copied(it: World, copy: PartitionCopy, driver: Driver) -> None:
    def done() -> bool:
        driver.grant()
        return it.is_copied(copy.spec.partition.partition)

    await until(done)


def records_of(log: MemoryLog) -> dict[int, int]:
    """Checksums of the records of every data batch, by the batch's offset."""
    return {
        stored.header.base_offset: hash(bytes(stored.data[61:]))
        for stored in log.batches
        if not stored.header.is_control
    }


def assert_committed_records(it: World) -> None:
    """The target holds what a consumer of committed records is given, and markers of ours wherever there is nothing."""
    source, target = it.source.logs[place(0)], it.target.logs[place(0)]
    aborted_at = {
        stored.header.base_offset
        for stored in source.batches
        if stored.header.producer_id == OTHER and stored.header.records_count == 3
    }
    expected = {at: each for at, each in records_of(source).items() if at not in aborted_at}
    assert records_of(target) == expected
    assert target.end == source.end
    assert not any(s.header.is_transactional for s in target.batches if not s.header.is_control)


async def test_markers_and_aborted_records_become_gaps_of_the_same_size() -> None:
    async with world() as it:
        it.create(0, 2)
        write_transactions(it.source.logs[place(0)])
        copy = it.assign(0)
        await until_copied(it, copy, Driver(it))
        assert_committed_records(it)
        assert copy.stopped is None
        await until(lambda: copy.state is PartitionState.CAUGHT_UP)


async def test_a_gap_waits_for_an_attempt_of_the_driver() -> None:
    async with world() as it:
        it.create(0, 2)
        log = it.source.logs[place(0)]
        before = log.end
        end(log, ONE, COMMIT)
        write(log, 2)
        copy = it.assign(0)
        await until(lambda: copy.wants_attempt)
        assert it.target.logs[place(0)].end == before
        assert it.lane.take_attempt_wants() == [(mirror(0), -1)]
        assert it.lane.take_attempt_wants() == []  # asked already; again after a while
        it.lane.grant_attempt(mirror(0), 4)
        await until(lambda: it.is_copied(0))
        assert_committed_records(it)


async def test_a_successor_goes_on_behind_markers_and_inside_of_a_gap() -> None:
    async with world() as it:
        it.create(0, 2)
        log, target = it.source.logs[place(0)], it.target.logs[place(0)]
        driver = Driver(it)
        for step in range(5):
            write_transactions(log, 1)
            copy = it.assign(0)
            await until_copied(it, copy, driver)
            await it.lane.revoke(mirror(0))
            if step % 2:  # half of the last gap is not there yet
                target.batches.pop()
                target.end -= 1
                target.markers.clear()
        assert_committed_records(it)


async def test_requests_do_not_cross_blocks_of_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker_label, "BLOCK_OFFSETS", 4)
    async with world() as it:
        it.create(0, 1)
        log = it.source.logs[place(0)]
        for _ in range(11):
            end(log, ONE, COMMIT)
        write(log, 1)
        sent: list[list[MarkerLabel]] = []
        honest = it.target.write_markers

        async def note(node, markers, permit):  # type: ignore[no-untyped-def]
            sent.append([marker.label for marker in markers])
            return await honest(node, markers, permit)

        it.target.write_markers = note  # type: ignore[method-assign]
        await until_copied(it, it.assign(0), Driver(it))
        assert [len(labels) for labels in sent] == [3, 4, 4]
        assert all(len({label.producer_id for label in labels}) == 1 for labels in sent)
        assert_committed_records(it)


async def test_a_marker_refused_inside_of_a_request_is_repaired() -> None:
    """The next one is taken in its place: the gap is one short, and its labels are used up."""
    async with world() as it:
        it.create(0, 1)
        log = it.source.logs[place(0)]
        for _ in range(6):
            end(log, ONE, COMMIT)
        write(log, 1)
        refused = iter([None, None, ErrorCode.NOT_ENOUGH_REPLICAS])
        it.target.marker_fault = lambda _where, _label: next(refused, None)
        copy = it.assign(0)
        await until_copied(it, copy, Driver(it))
        assert_committed_records(it)
        assert copy.stopped is None


async def test_two_lanes_that_fill_one_gap_append_each_offset_once() -> None:
    async with world() as it, world() as rival:
        it.create(0, 1)
        log = it.source.logs[place(0)]
        write_transactions(log, 8)
        rival.source.logs, rival.source.leaders, rival.source.believed = (
            it.source.logs,
            it.source.leaders,
            it.source.believed,
        )
        rival.target.logs, rival.target.leaders, rival.target.believed = (
            it.target.logs,
            it.target.leaders,
            it.target.believed,
        )
        attempts = itertools.count()
        copies = [it.assign(0), rival.assign(0)]

        def done() -> bool:
            for each in (it, rival):
                for key, above in each.lane.take_attempt_wants():
                    each.lane.grant_attempt(key, next(a for a in attempts if a > above))
            return it.is_copied(0)

        await until(done)
        assert_committed_records(it)
        assert all(copy.stopped is None for copy in copies)


async def test_a_marker_too_many_stops_the_partition() -> None:
    async with world() as it:
        it.create(0, 1)
        log, target = it.source.logs[place(0)], it.target.logs[place(0)]
        end(log, ONE, COMMIT)
        copy = it.assign(0)
        await until_copied(it, copy, Driver(it))
        await it.lane.revoke(mirror(0))
        write(log, 2)
        label = marker_label.marker_label(copy.spec.producer_id, target.end, 9)
        target.write_marker(label)
        copy = it.assign(0)
        await until(lambda: copy.stopped is not None)
        assert copy.stopped is not None
        assert copy.stopped.reason == StopReason.ANCHOR
        assert "holds a record to copy at offset 2" in copy.stopped.message


async def test_a_marker_of_somebody_else_stops_the_partition() -> None:
    async with world() as it:
        it.create(0, 1)
        copy = it.assign(0)
        await until(lambda: it.is_copied(0))
        await it.lane.revoke(mirror(0))
        write(it.source.logs[place(0)], 2)
        it.target.logs[place(0)].write_marker(MarkerLabel(4711, 0, 0))
        copy = it.assign(0)
        await until(lambda: copy.stopped is not None)
        assert copy.stopped is not None
        assert copy.stopped.reason == StopReason.FOREIGN


async def test_an_answer_that_is_lost_spends_the_attempt() -> None:
    async with world() as it:
        it.create(0, 1)
        log = it.source.logs[place(0)]
        end(log, ONE, COMMIT)
        write(log, 1)
        copy = it.assign(0)
        await until(lambda: copy.wants_attempt)
        it.target.dead.add(1)
        it.lane.take_attempt_wants()
        it.lane.grant_attempt(mirror(0), 0)
        await until(lambda: copy.wants_resync)
        it.target.dead.clear()
        await until(lambda: copy.wants_attempt)
        it.lane.grant_attempt(mirror(0), 1)
        await until(lambda: it.is_copied(0))
        assert not copy.clear  # what was lost may still be executed
        marks = [s.header.producer_epoch for s in it.target.logs[place(0)].batches if s.header.is_control]
        assert marks == [1]


async def test_missing_rights_stop_the_partition_and_name_them() -> None:
    async with world() as it:
        it.create(0, 1)
        end(it.source.logs[place(0)], ONE, COMMIT)
        it.target.marker_fault = lambda _where, _label: ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        copy = it.assign(0)
        driver = Driver(it)

        def stopped() -> bool:
            driver.grant()
            return copy.stopped is not None

        await until(stopped)
        assert copy.stopped is not None
        assert "ALTER" in copy.stopped.hint
        assert "CLUSTER_ACTION" in copy.stopped.hint
        assert copy.next_offset == 1  # what is before the gap is there


async def test_what_waits_for_one_broker_goes_as_one_request() -> None:
    async with world() as it:
        for partition in range(5):
            it.create(partition, 1)
            log = it.source.logs[TopicPartition("orders", partition)]
            end(log, ONE, COMMIT)
            write(log, 1)
        requests = 0
        honest = it.target.write_markers

        async def count(node, markers, permit):  # type: ignore[no-untyped-def]
            nonlocal requests
            requests += 1
            return await honest(node, markers, permit)

        it.target.write_markers = count  # type: ignore[method-assign]
        it.target.marker_answer.clear()
        copies = [it.assign(partition) for partition in range(5)]
        wants: list[MirrorPartition] = []

        def all_want() -> bool:
            wants.extend(key for key, _ in it.lane.take_attempt_wants())
            return len(wants) == len(copies)

        await until(all_want)
        for key in wants:
            it.lane.grant_attempt(key, 0)
        await until(lambda: requests == 1)
        it.target.marker_answer.set()
        await until(lambda: all(it.is_copied(partition) for partition in range(5)))
        assert requests == 1
        assert fill.MARKERS_AT_ONCE <= marker_line.MARKERS_AT_ONCE


async def test_a_long_gap_holds_up_no_short_one_of_another_partition() -> None:
    async with world() as it:
        for partition, markers in ((0, FEW_MARKERS + 1), (1, 1)):
            it.create(partition, 1)
            log = it.source.logs[TopicPartition("orders", partition)]
            for _ in range(markers):
                end(log, ONE, COMMIT)
            write(log, 1)
        honest = it.target.write_markers
        may_answer = asyncio.Event()

        async def slow_if_long(node, markers, permit):  # type: ignore[no-untyped-def]
            if len(markers) > FEW_MARKERS:
                await may_answer.wait()
            return await honest(node, markers, permit)

        it.target.write_markers = slow_if_long  # type: ignore[method-assign]
        driver = Driver(it)
        long = it.assign(0)
        await until(lambda: long.wants_attempt)
        driver.grant()
        await until_copied(it, it.assign(1), driver)
        assert not it.is_copied(0)
        may_answer.set()
        await until_copied(it, long, driver)


async def test_short_gaps_never_add_up_to_what_goes_on_the_connection_of_long_ones() -> None:
    async with world() as it:
        for partition in range(5):
            it.create(partition, 1)
            log = it.source.logs[TopicPartition("orders", partition)]
            for _ in range(FEW_MARKERS // 2):
                end(log, ONE, COMMIT)
        sizes: list[int] = []
        honest = it.target.write_markers

        async def note(node, markers, permit):  # type: ignore[no-untyped-def]
            sizes.append(len(markers))
            return await honest(node, markers, permit)

        it.target.write_markers = note  # type: ignore[method-assign]
        copies = [it.assign(partition) for partition in range(5)]
        await until(lambda: all(copy.wants_attempt for copy in copies))
        driver = Driver(it)
        for copy in copies:
            await until_copied(it, copy, driver)
        assert max(sizes) == FEW_MARKERS


async def test_the_offsets_that_were_filled_are_counted_and_the_time_of_several_at_once_counts_once() -> None:
    async with world() as it:
        loop, driver = asyncio.get_running_loop(), Driver(it)
        for partition in range(3):
            it.create(partition, 1)
            for _ in range(40):
                end(it.source.logs[place(partition)], ONE, COMMIT)
            write(it.source.logs[place(partition)], 1)
        began = loop.time()
        copies = [it.assign(partition) for partition in range(3)]
        for copy in copies:
            await until_copied(it, copy, driver)
        assert [copy.filled for copy in copies] == [40] * 3
        assert 0 < sum(copy.filling_s for copy in copies) < loop.time() - began
