"""Without the right to write markers gaps are filled by empty transactions; every record keeps its offset (P2, P4)."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from heliograph.cluster.empty_transactions import FillProducer
from heliograph.copier.lease import Lease
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.model.errors import BrokerRefused, Disconnected
from heliograph.model.events import Event
from heliograph.model.fill_way import FillWay, transactional_id
from heliograph.model.hints import AFTER_LINE
from heliograph.model.marker_label import MarkerLabel
from heliograph.model.states import PartitionState, StopReason
from heliograph.wire.error_codes import ErrorCode
from tests.wire.batches import COMMIT

from .lane_world import Clock, mirror, place, until, world, write
from .memory_log import MemoryLog
from .test_gaps import ONE, Driver, assert_committed_records, end, until_copied, write_transactions

BY_TRANSACTIONS, BY_MARKERS, NO_WAY = FillWay.TRANSACTIONS, FillWay.MARKERS, FillWay.NONE
NAME = transactional_id("sf-id", "orders", 0)


def gap(log: MemoryLog, offsets: int, batches: int = 1) -> None:
    """So many markers at the source, and records behind them."""
    for _ in range(offsets):
        end(log, ONE, COMMIT)
    write(log, batches)


async def until_stopped(copy: PartitionCopy) -> None:
    await until(lambda: copy.stopped is not None)


async def test_gaps_are_filled_without_an_attempt_of_the_driver() -> None:
    async with world() as it:
        it.create(0, 2)
        write_transactions(it.source.logs[place(0)])
        copy = it.assign(0, fill_way=BY_TRANSACTIONS)
        await until(lambda: it.is_copied(0))
        assert_committed_records(it)
        await until(lambda: copy.state is PartitionState.CAUGHT_UP)
        assert it.target.transactions.fences == 1  # nothing was unknown


async def test_the_driver_writes_down_that_there_were_gaps_and_nobody_waits_for_it() -> None:
    async with world() as it:
        it.create(0, 1)
        copy = it.assign(0, fill_way=BY_TRANSACTIONS)
        await until(lambda: it.is_copied(0))
        assert it.lane.take_attempt_wants() == []  # without gaps there is nothing to write down
        gap(it.source.logs[place(0)], 1)
        await until(lambda: it.is_copied(0))
        assert not copy.wants_attempt
        assert it.lane.take_attempt_wants() == [(mirror(0), -1)]
        it.lane.grant_attempt(mirror(0), 0)
        gap(it.source.logs[place(0)], 1)
        await until(lambda: it.is_copied(0))
        assert it.lane.take_attempt_wants() == []


async def test_every_holder_fences_the_former_ones_off_before_its_first_append() -> None:
    async with world() as it:
        it.create(0, 1)
        for holders in range(1, 4):
            it.assign(0, fill_way=BY_TRANSACTIONS)
            await until(lambda: it.is_copied(0))
            assert it.target.transactions.fences == holders
            await it.lane.revoke(mirror(0))
            write(it.source.logs[place(0)], 1)


async def test_what_a_dead_holder_had_begun_is_over_before_its_successor_reads_where_the_log_ends() -> None:
    """Else its marker would come in between the successor's records."""
    async with world() as it:
        it.create(0, 1)
        log, transactions = it.source.logs[place(0)], it.target.transactions
        it.assign(0, fill_way=BY_TRANSACTIONS)
        await until(lambda: it.is_copied(0))
        await it.lane.revoke(mirror(0))
        gap(log, 1, batches=3)
        transactions.begin(NAME, await transactions.fence(NAME), place(0))  # and then it died
        copy = it.assign(0, fill_way=BY_TRANSACTIONS)
        await until(lambda: it.is_copied(0))
        transactions.abort(NAME)  # nothing is left of it
        assert_committed_records(it)
        assert copy.stopped is None


@pytest.mark.parametrize("hook", ["begun", "ended"])
async def test_an_outcome_that_is_not_known_is_fenced_off_before_anything_else_is_sent(hook: str) -> None:
    async with world() as it:
        it.create(0, 1)
        gap(it.source.logs[place(0)], 3)
        transactions = it.target.transactions
        numbers = itertools.count()

        def fail(_name: str) -> None:
            if next(numbers) == 1:
                raise Disconnected("the coordinator is gone")

        setattr(transactions, hook, fail)
        copy = it.assign(0, fill_way=BY_TRANSACTIONS)
        await until(lambda: it.is_copied(0))
        assert_committed_records(it)
        assert transactions.fences == 2
        assert [t.event for t in copy.take_begun() if not isinstance(t, BaseException)] == [
            Event.GAP_UNFILLED
        ]


async def test_a_marker_that_the_coordinator_has_written_twice_is_one_offset_less_to_fill() -> None:
    async with world() as it:
        it.create(0, 1)
        gap(it.source.logs[place(0)], 4)
        transactions = it.target.transactions
        numbers = itertools.count()

        def again(name: str) -> None:
            if next(numbers) == 1:
                transactions.write_marker(name, place(0))

        transactions.ended = again
        copy = it.assign(0, fill_way=BY_TRANSACTIONS)
        await until(lambda: it.is_copied(0))
        assert_committed_records(it)
        assert copy.stopped is None


async def test_a_marker_too_many_behind_the_gap_stops_the_partition() -> None:
    async with world() as it:
        it.create(0, 1)
        gap(it.source.logs[place(0)], 1)
        it.target.transactions.ended = lambda name: it.target.transactions.write_marker(name, place(0))
        copy = it.assign(0, fill_way=BY_TRANSACTIONS)
        await until_stopped(copy)
        assert copy.stopped is not None
        assert copy.stopped.reason == StopReason.ANCHOR


async def test_two_lanes_that_fill_one_gap_fill_each_offset_once() -> None:
    async with world() as it, world() as rival:
        it.create(0, 1)
        write_transactions(it.source.logs[place(0)], 6)
        for ours, theirs in ((it.source, rival.source), (it.target, rival.target)):
            theirs.logs, theirs.leaders, theirs.believed = ours.logs, ours.leaders, ours.believed
        rival.target.transactions = it.target.transactions
        copies = [each.assign(0, fill_way=BY_TRANSACTIONS) for each in (it, rival)]
        await until(lambda: it.is_copied(0))
        assert_committed_records(it)
        assert all(copy.stopped is None for copy in copies)


async def test_a_lane_that_thaws_without_a_lease_ends_no_transaction() -> None:
    clock = Clock()
    lease = Lease(clock)
    lease.renew(clock.now, 60.0)
    async with world(lease=lease) as it:
        it.create(0, 1)
        log, transactions = it.source.logs[place(0)], it.target.transactions
        gap(log, 1)

        def freeze(_name: str) -> None:
            clock.now += 3600.0

        transactions.begun = freeze
        it.assign(0, fill_way=BY_TRANSACTIONS)
        # It asks the target again, and fences itself off from what it had begun: that is over, at its own offset.
        await until(lambda: transactions.fences == 2)
        target = it.target.logs[place(0)]
        await until(lambda: target.end == 2)
        transactions.begun = lambda _name: None
        await asyncio.sleep(0.05)
        assert target.end == 2  # without a lease nothing follows


@pytest.mark.parametrize("ways", [(BY_MARKERS, BY_TRANSACTIONS), (BY_TRANSACTIONS, BY_MARKERS)])
@pytest.mark.parametrize("batches", [0, 1])
async def test_a_partition_goes_on_in_the_other_way(ways: tuple[FillWay, FillWay], batches: int) -> None:
    """Behind markers of the first way, and behind records whose sequences lag behind their offsets."""
    async with world() as it:
        it.create(0, 1)
        log, target = it.source.logs[place(0)], it.target.logs[place(0)]
        driver = Driver(it)
        reserved = False
        for way in (*ways, ways[0]):
            gap(log, 2, batches=batches)
            copy = it.assign(0, fill_way=way)
            if reserved:
                copy.attempt_granted(0)  # as the driver's cells tell
            await until_copied(it, copy, driver)
            reserved = True
            assert copy.stopped is None
            await it.lane.revoke(mirror(0))
            target.markers.clear()
        assert target.end == log.end


async def test_who_may_not_ask_which_markers_are_ours_stops_and_says_what_would_help() -> None:
    async with world() as it:
        it.create(0, 1)
        gap(it.source.logs[place(0)], 1, batches=0)
        it.assign(0, fill_way=BY_TRANSACTIONS)
        await until(lambda: it.is_copied(0))
        await it.lane.revoke(mirror(0))
        it.target.transactions.denied = True
        copy = it.assign(0)
        await until_stopped(copy)
        assert copy.stopped is not None
        assert copy.stopped.reason == StopReason.FOREIGN
        assert f"grant WRITE on transactional id {NAME} again" in copy.stopped.hint


async def test_a_producer_id_that_was_given_anew_after_a_week_is_ours_still() -> None:
    async with world() as it:
        it.create(0, 1)
        log, target = it.source.logs[place(0)], it.target.logs[place(0)]
        gap(log, 2, batches=0)
        it.assign(0, fill_way=BY_TRANSACTIONS)
        await until(lambda: it.is_copied(0))
        await it.lane.revoke(mirror(0))
        it.target.transactions.forget(NAME)
        target.markers.clear()  # the leader has forgotten it long before
        gap(log, 1, batches=2)
        copy = it.assign(0, fill_way=BY_TRANSACTIONS)
        await until(lambda: it.is_copied(0))
        assert copy.stopped is None


@pytest.mark.parametrize("way", [BY_TRANSACTIONS, BY_MARKERS, NO_WAY])
async def test_a_marker_of_a_stranger_stops_the_partition(way: FillWay) -> None:
    async with world() as it:
        it.create(0, 1)
        log, target = it.source.logs[place(0)], it.target.logs[place(0)]
        it.assign(0, fill_way=way)
        await until(lambda: it.is_copied(0))
        await it.lane.revoke(mirror(0))
        gap(log, 2, batches=0)
        target.write_marker(MarkerLabel(4711, 0, 0))  # the source holds nothing to copy there; whose is it?
        copy = it.assign(0, fill_way=way)
        await until_stopped(copy)
        assert copy.stopped is not None
        assert copy.stopped.reason == StopReason.FOREIGN


async def test_without_either_right_the_partition_stops_at_its_first_gap_and_names_both() -> None:
    async with world() as it:
        it.create(0, 2)
        log = it.source.logs[place(0)]
        before = log.end
        gap(log, 2)
        copy = it.assign(0, fill_way=NO_WAY)
        await until_stopped(copy)
        stop = copy.stopped
        assert stop is not None
        assert (stop.reason, copy.next_offset) == (StopReason.REFUSED, before)
        assert f"offsets [{before}, {before + 2})" in stop.message
        for right in ("ALTER", "CLUSTER_ACTION", f"WRITE on transactional id {NAME}"):
            assert right in stop.message
        assert "--transactional-id heliograph.sf-id." in stop.hint
        assert "--operation Alter" in stop.hint
        assert it.lane.take_attempt_wants() == []
        assert it.target.transactions.fences == 0


async def test_a_right_that_is_taken_away_stops_the_partition() -> None:
    async with world() as it:
        it.create(0, 1)
        copy = it.assign(0, fill_way=BY_TRANSACTIONS)
        await until(lambda: it.is_copied(0))
        it.target.transactions.denied = True
        gap(it.source.logs[place(0)], 1)
        await until_stopped(copy)
        assert copy.stopped is not None
        assert (copy.stopped.reason, copy.stopped.hint) == (
            StopReason.REFUSED,
            f"grant WRITE on transactional ids{AFTER_LINE}",
        )


async def test_a_coordinator_that_hangs_holds_up_nobody_who_needs_no_transactions() -> None:
    async with world() as it:
        answer = asyncio.Event()
        for partition in range(40):
            it.create(partition, 1)
        it.create(40, 1)

        honest = it.target.fence_fills

        async def fence(transactional_id: str) -> FillProducer:
            await answer.wait()
            return await honest(transactional_id)

        it.target.fence_fills = fence  # type: ignore[method-assign]
        waiting = [it.assign(partition, fill_way=BY_TRANSACTIONS) for partition in range(40)]
        it.assign(40)
        await until(lambda: it.is_copied(40))
        assert not any(it.is_copied(partition) for partition in range(40))
        answer.set()
        await until(lambda: all(it.is_copied(partition) for partition in range(40)))
        assert all(copy.stopped is None for copy in waiting)


async def test_a_coordinator_that_does_not_let_us_in_is_told() -> None:
    async with world() as it:
        it.create(0, 1)
        it.target.transactions.fails = BrokerRefused(
            "CONCURRENT_TRANSACTIONS", code=ErrorCode.CONCURRENT_TRANSACTIONS
        )
        copy = it.assign(0, fill_way=BY_TRANSACTIONS)
        await until(lambda: copy.trouble is not None)
        assert copy.trouble is not None
        assert copy.trouble.event is Event.GAP_UNFILLED
        it.target.transactions.fails = None
        await until(lambda: it.is_copied(0))
