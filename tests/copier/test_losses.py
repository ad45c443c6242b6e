"""What retention took before it was copied is left out where somebody has accepted that: markers take its offsets, it
is told exactly, and every other record keeps its offset (P2, P4, P6)."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace

import pytest

from heliograph.cluster.empty_transactions import FillProducer
from heliograph.cluster.log_reads import Batches
from heliograph.copier import fill, tail
from heliograph.copier.losses import Losses
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.model import marker_label
from heliograph.model.errors import Disconnected
from heliograph.model.events import Event, Trouble
from heliograph.model.fill_way import FillWay
from heliograph.model.partition import TopicPartition
from heliograph.model.policy import DEFAULT_POLICY, OnLoss
from heliograph.model.states import PartitionState, StopReason
from heliograph.wire.error_codes import ErrorCode
from tests.wire.batches import COMMIT

from .lane_world import World, mirror, place, until, world, write
from .memory_log import MemoryLog
from .source_batches import NOW_MS, NOW_S, OLD_MS, spec_of, synced_at
from .test_gaps import ONE, Driver, end, records_of, until_copied

CONTINUE = replace(DEFAULT_POLICY, on_loss=OnLoss.CONTINUE)
WAYS = [FillWay.MARKERS, FillWay.TRANSACTIONS]


def told(copy: PartitionCopy) -> list[tuple[int | None, int | None]]:
    """Which losses, as the driver hears of them."""
    return [(each.first_offset, each.next_offset) for each in taken(copy)]


def taken(copy: PartitionCopy) -> list[Trouble]:
    return [each for each in copy.take_notices() if each.event is Event.LOSS_ACCEPTED]


async def overtaken(it: World, lost: int = 7) -> tuple[int, int]:
    """A mirror that was away while retention took batches; which offsets that were."""
    it.create(0, 4)
    it.assign(0)
    await until(lambda: it.is_copied(0))
    await it.lane.revoke(mirror(0))
    log = it.source.logs[place(0)]
    at = log.end
    write(log, lost + 5)
    return at, log.batches[4 + lost].header.base_offset


def retain_from(it: World, offset: int) -> None:
    it.source.logs[place(0)].delete_before(offset)


def markers_of(log: MemoryLog) -> list[int]:
    return [stored.header.base_offset for stored in log.batches if stored.header.is_control]


class Teller(Driver):
    """Also hears what each copy has to tell, before it grants."""

    def __init__(self, it: World) -> None:
        super().__init__(it)
        self.told: list[tuple[int | None, int | None]] = []

    def grant(self) -> None:
        for copy in self._lane.copies.values():
            self.told += told(copy)
        super().grant()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("by", ["policy", "operator"])
async def test_an_accepted_loss_is_filled_and_told_and_copying_goes_on_behind_it(
    by: str, way: FillWay
) -> None:
    async with world() as it:
        at, start = await overtaken(it)
        before = records_of(it.target.logs[place(0)])
        retain_from(it, start)
        accepted = {"policy": CONTINUE} if by == "policy" else {"accepted_loss": (at, start)}
        driver = Teller(it)
        copy = it.assign(0, fill_way=way, **accepted)
        await until_copied(it, copy, driver)
        await until(lambda: copy.state is PartitionState.CAUGHT_UP)
        source, target = it.source.logs[place(0)], it.target.logs[place(0)]
        assert records_of(target) == before | records_of(source)
        assert markers_of(target) == list(range(at, start))
        assert driver.told == [(at, start)]
        assert copy.stopped is None
        assert it.target.transactions.fences == (way is FillWay.TRANSACTIONS)  # nothing was unknown


async def test_a_loss_that_nobody_accepted_stops_the_partition() -> None:
    async with world() as it:
        at, start = await overtaken(it)
        retain_from(it, start)
        copy = it.assign(0, accepted_loss=(at + 1, start))
        await until(lambda: copy.stopped is not None)
        assert copy.stopped is not None
        assert copy.stopped.reason == StopReason.LOST
        assert (copy.stopped.first_offset, copy.stopped.next_offset) == (at, start)
        assert markers_of(it.target.logs[place(0)]) == []
        assert told(copy) == []


@pytest.mark.parametrize("way", WAYS)
async def test_a_loss_that_is_met_while_copying_takes_the_same_road(way: FillWay) -> None:
    async with world() as it:
        it.create(0, 4)
        driver = Teller(it)
        copy = it.assign(0, policy=CONTINUE, fill_way=way)
        await until_copied(it, copy, driver)
        it.source.fetch_error[place(0)] = ErrorCode.OFFSET_OUT_OF_RANGE
        log = it.source.logs[place(0)]
        at = log.end
        write(log, 12)
        start = log.batches[9].header.base_offset
        retain_from(it, start)
        it.source.fetch_error.clear()
        await until_copied(it, copy, driver)
        assert markers_of(it.target.logs[place(0)]) == list(range(at, start))
        assert driver.told == [(at, start)]


async def test_what_an_operator_accepted_is_filled_and_the_rest_is_lost_again() -> None:
    """The source starts later than what he has seen."""
    async with world() as it:
        at, start = await overtaken(it)
        retain_from(it, start)
        driver = Teller(it)
        copy = it.assign(0, accepted_loss=(at, start - 2))

        def stopped() -> bool:
            driver.grant()
            return copy.stopped is not None

        await until(stopped)
        assert copy.stopped is not None
        assert copy.stopped.reason == StopReason.LOST
        assert (copy.stopped.first_offset, copy.stopped.next_offset) == (start - 2, start)
        assert markers_of(it.target.logs[place(0)]) == list(range(at, start - 2))
        assert driver.told == [(at, start - 2)]


async def test_a_successor_goes_on_inside_of_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Markers of ours at offsets that the source has no more; in requests of two, over borders of labels."""
    monkeypatch.setattr(marker_label, "BLOCK_OFFSETS", 4)
    monkeypatch.setattr(fill, "MARKERS_AT_ONCE", 2)
    async with world() as it:
        at, start = await overtaken(it, lost=9)
        retain_from(it, start)
        driver, target = Teller(it), it.target.logs[place(0)]
        it.target.marker_fault = lambda _where, _label: (
            ErrorCode.NOT_ENOUGH_REPLICAS if target.end >= at + 5 else None
        )
        first = it.assign(0, accepted_loss=(at, start))

        def half() -> bool:
            driver.grant()
            return target.end >= at + 5

        await until(half)
        await it.lane.revoke(mirror(0))
        assert first.stopped is None
        it.target.marker_fault = lambda _where, _label: None
        copy = it.assign(0, accepted_loss=(at, start))
        await until_copied(it, copy, driver)
        assert copy.stopped is None
        assert markers_of(target) == list(range(at, start))
        assert driver.told == [(at, start), (at + 5, start)]


@pytest.mark.parametrize("remembers", [True, False])
async def test_a_long_loss_is_not_read_again_to_its_beginning(
    monkeypatch: pytest.MonkeyPatch, remembers: bool
) -> None:
    """Unless only what is before it tells our sequence number."""
    monkeypatch.setattr(tail, "COMPARED_OFFSETS", 8)
    monkeypatch.setattr(tail, "MOST_OFFSETS", 4)
    async with world() as it:
        at, start = await overtaken(it, lost=30)
        retain_from(it, start)
        driver, target = Teller(it), it.target.logs[place(0)]
        it.target.marker_fault = lambda _where, _label: (
            ErrorCode.NOT_ENOUGH_REPLICAS if target.end >= at + 40 else None
        )
        it.assign(0, policy=CONTINUE)

        def most_of_it() -> bool:
            driver.grant()
            return target.end >= at + 40

        await until(most_of_it)
        await it.lane.revoke(mirror(0))
        if not remembers:
            target.producers.clear()
        it.target.marker_fault = lambda _where, _label: None
        looks: list[int] = []
        batches_in = it.target.batches_in

        async def noted(where: TopicPartition, first_offset: int, next_offset: int, **how: bool) -> Batches:
            looks.append(first_offset)
            return await batches_in(where, first_offset, next_offset, **how)

        monkeypatch.setattr(it.target, "batches_in", noted)
        copy = it.assign(0, policy=CONTINUE)
        await until_copied(it, copy, driver)
        assert copy.stopped is None
        assert markers_of(target) == list(range(at, start))
        assert (min(looks) > at) is remembers


@pytest.mark.parametrize("way", WAYS)
async def test_a_loss_is_filled_only_when_a_driver_that_was_told_of_it_grants_that(way: FillWay) -> None:
    async with world() as it:
        at, start = await overtaken(it)
        retain_from(it, start)
        copy = it.assign(0, policy=CONTINUE, fill_way=way)
        await until(lambda: copy.wants_attempt)
        it.lane.grant_attempt(mirror(0), 4)  # reserved before, for something else
        assert copy.wants_attempt
        assert told(copy) == [(at, start)]
        await asyncio.sleep(0.05)
        assert (
            it.target.logs[place(0)].end == at
        )  # it was handed over; whether the driver has it nobody knows
        assert it.lane.take_attempt_wants() == [(mirror(0), -1)]
        it.lane.grant_attempt(mirror(0), 5)
        await until(lambda: it.is_copied(0))
        assert not copy.asks_for_attempt


@pytest.mark.parametrize("hook", ["begun", "ended"])
async def test_a_transaction_of_unknown_outcome_inside_of_a_loss_is_fenced_off_and_the_rest_is_filled(
    hook: str,
) -> None:
    """What the driver has heard of it need not hear of again."""
    async with world(flight_ms=50) as it:
        at, start = await overtaken(it)
        retain_from(it, start)
        transactions, numbers = it.target.transactions, itertools.count()

        def fail(_name: str) -> None:
            if next(numbers) == 3:
                raise Disconnected("the coordinator is gone")

        setattr(transactions, hook, fail)
        copy = it.assign(0, policy=CONTINUE, fill_way=FillWay.TRANSACTIONS)
        await until(lambda: copy.wants_attempt)
        assert told(copy) == [(at, start)]
        it.lane.grant_attempt(mirror(0), 0)
        await until(lambda: it.is_copied(0))
        assert markers_of(it.target.logs[place(0)]) == list(range(at, start))
        assert told(copy) == []
        assert transactions.fences == 2


async def test_a_successor_goes_on_by_transactions_inside_of_a_loss() -> None:
    async with world(flight_ms=50) as it:
        at, start = await overtaken(it)
        retain_from(it, start)
        driver, target = Teller(it), it.target.logs[place(0)]

        def fail(_name: str) -> None:
            if target.end >= at + 5:
                raise Disconnected("the coordinator is gone")

        it.target.transactions.ended = fail
        it.assign(0, accepted_loss=(at, start), fill_way=FillWay.TRANSACTIONS)

        def half() -> bool:
            driver.grant()
            return target.end >= at + 5

        await until(half)
        await it.lane.revoke(mirror(0))
        it.target.transactions.ended = lambda _name: None
        copy = it.assign(0, accepted_loss=(at, start), fill_way=FillWay.TRANSACTIONS)
        await until_copied(it, copy, driver)
        assert copy.stopped is None
        assert markers_of(target) == list(range(at, start))
        assert driver.told == [(at, start), (at + 5, start)]


@pytest.mark.parametrize("by", ["policy", "operator"])
async def test_who_may_fill_gaps_in_neither_way_stops_at_a_loss_and_says_what_would_help(by: str) -> None:
    async with world() as it:
        at, start = await overtaken(it)
        retain_from(it, start)
        accepted = {"policy": CONTINUE} if by == "policy" else {"accepted_loss": (at, start)}
        copy = it.assign(0, fill_way=FillWay.NONE, **accepted)
        await until(lambda: copy.stopped is not None)
        assert copy.stopped is not None
        assert (copy.stopped.reason, copy.next_offset) == (StopReason.REFUSED, at)
        assert f"offsets [{at}, {start})" in copy.stopped.message
        assert "--operation Alter" in copy.stopped.hint
        assert it.lane.take_attempt_wants() == []
        assert it.target.logs[place(0)].end == at


async def test_a_gap_behind_a_loss_is_filled_too() -> None:
    async with world() as it:
        await overtaken(it)
        log = it.source.logs[place(0)]
        at, start = it.target.logs[place(0)].end, log.end
        end(log, ONE, COMMIT)
        write(log, 3)
        retain_from(it, start)
        copy = it.assign(0, policy=CONTINUE)
        await until_copied(it, copy, Teller(it))
        assert markers_of(it.target.logs[place(0)]) == list(range(at, start + 1))


async def test_who_may_not_write_markers_stops_at_a_loss() -> None:
    async with world() as it:
        _, start = await overtaken(it)
        retain_from(it, start)
        it.target.marker_fault = lambda _where, _label: ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        driver, copy = Teller(it), it.assign(0, policy=CONTINUE)

        def stopped() -> bool:
            driver.grant()
            return copy.stopped is not None

        await until(stopped)
        assert copy.stopped is not None
        assert copy.stopped.reason == StopReason.REFUSED


def test_nothing_is_fetched_before_a_loss_is_filled() -> None:
    copy = PartitionCopy(spec_of(), 1 << 20)
    copy.synced(synced_at(5, lost_to=9, state_ms=NOW_MS), NOW_MS)
    assert copy.fetch_offset() is None
    assert told(copy) == [(5, 9)]
    copy.attempt_granted(0)
    due = copy.fill_due()
    assert due is not None
    copy.begin_fill(due)
    assert copy.filled_to(7)
    assert copy.fetch_offset() is None
    assert not copy.filled_to(9)
    copy.fill_over()
    assert copy.fetch_offset() == 9
    assert copy.next_offset == 9


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("state_ms", [None, OLD_MS, NOW_MS])
def test_a_loss_waits_until_no_append_of_a_former_holder_can_be_on_its_way(
    state_ms: int | None, way: FillWay
) -> None:
    """It may hold the very records that are lost by now: a broker would append them among the markers."""
    copy = PartitionCopy(replace(spec_of(), fill_way=way), 1 << 20, clear_at=NOW_S)
    copy.synced(synced_at(5, lost_to=9, state_ms=state_ms), NOW_MS)
    told(copy)
    copy.attempt_granted(0)
    assert copy.fill_due() is None
    assert copy.awaits_clearance
    copy.cleared(NOW_S)
    copy.synced(synced_at(5, lost_to=9, state_ms=state_ms), NOW_MS)
    assert told(copy) == []
    assert copy.fill_due() is not None


@pytest.mark.parametrize("way", WAYS)
def test_a_loss_that_has_grown_waits_for_another_grant(way: FillWay) -> None:
    copy = PartitionCopy(replace(spec_of(), fill_way=way), 1 << 20)
    producer = FillProducer(4000, 0)
    copy.fenced(producer)
    copy.synced(synced_at(5, lost_to=9, state_ms=NOW_MS), NOW_MS)
    told(copy)
    copy.attempt_granted(0)
    copy.interrupted(Trouble(Event.LEADER_MOVED, "the target partition has a new leader"))
    copy.synced(synced_at(5, lost_to=12, state_ms=NOW_MS), NOW_MS)
    assert copy.fill_due() is None
    assert copy.wants_attempt
    assert copy.fill_producer is producer  # nothing was done with it
    assert told(copy) == [(9, 12)]
    assert copy.fill_due() is None
    copy.attempt_granted(1)
    due = copy.fill_due()
    assert due is not None
    assert (due.start.target, due.end.target) == (5, 12)


def test_each_lost_offset_is_told_once() -> None:
    losses = Losses(spec_of())

    def found(position: int, lost_to: int | None) -> tuple[int | None, int | None] | None:
        notice = losses.found(position, lost_to)
        return None if notice is None else (notice.first_offset, notice.next_offset)

    assert found(0, None) is None
    assert found(50, 60) == (50, 60)
    assert found(50, 60) is None
    assert found(55, 60) is None  # half of it is filled
    assert found(55, 70) == (60, 70)  # the source starts later by now
    assert found(70, None) is None
    assert found(90, 95) == (90, 95)
    assert found(80, 95) == (80, 95)  # the target was truncated


def test_a_loss_says_who_accepted_it() -> None:
    by_policy = Losses(replace(spec_of(), policy=CONTINUE)).found(1, 2)
    by_operator = Losses(replace(spec_of(), accepted_loss=(1, 2))).found(1, 2)
    assert by_policy is not None
    assert by_operator is not None
    assert "on_loss: continue" in by_policy.message
    assert "operator" in by_operator.message
