"""Records so old that brokers forget who wrote them: alone, under the lease, and only when nothing else is on its way.

The targets here forget at once: whatever arrives a second time is appended a second time.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from heliograph.cluster.group_membership import SESSIONS_S
from heliograph.cluster.line_name import LineName
from heliograph.copier import sender
from heliograph.copier.lease import ALIVE_S, Lease
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.phases import Phase
from heliograph.copier.sender import TOLD_AFTER_S
from heliograph.copier.spec import SESSION_MOST_S, margin_for
from heliograph.model.events import Event, Trouble
from heliograph.model.states import StopReason
from heliograph.wire.error_codes import ErrorCode

from .lane_world import LINK, Clock, World, mirror, place, until, world, write
from .memory_cluster import MemoryLine, Request
from .source_batches import (
    BROKEN,
    DAY_MS,
    NOW_MS,
    NOW_S,
    OLD_MS,
    OURS,
    batch,
    copy_at,
    fetched,
    give,
    give_reply,
    old_batch,
    phase_of,
    spec_of,
    synced_at,
)

CAREFUL, ORDINARY = LineName(0, careful=True), LineName(0)


@pytest.fixture
def copy() -> PartitionCopy:
    return copy_at(0)


def append(copy: PartitionCopy) -> None:
    copy.appended(copy.take().start.source)


# -- the machine


def test_records_are_perishable_from_half_of_what_brokers_remember() -> None:
    spec = spec_of()
    assert not spec.is_perishable(NOW_MS - DAY_MS // 2, NOW_MS)
    assert spec.is_perishable(NOW_MS - DAY_MS // 2 - 1, NOW_MS)


def test_where_brokers_forget_before_all_that_may_come_late_has_come_everything_is_perishable() -> None:
    """Half of a minute would be 30 s: less than a lane goes on for that has lost its driver."""
    forgetful = replace(spec_of(), state_lasts_ms=60_000)
    assert forgetful.is_perishable(NOW_MS - 29_000, NOW_MS)
    assert forgetful.is_perishable(NOW_MS + DAY_MS, NOW_MS)


@pytest.mark.parametrize("flight_s", [5.0, 30.0, 300.0])
def test_half_of_what_brokers_remember_exceeds_the_sum_of_the_margins(flight_s: float) -> None:
    needed_ms = margin_for(flight_s)
    assert needed_ms == (2 * flight_s + 30 + ALIVE_S + 60) * 1000
    just = replace(spec_of(), state_lasts_ms=2 * needed_ms + 2, margin_ms=needed_ms)
    assert not just.is_perishable(NOW_MS - needed_ms, NOW_MS)
    assert replace(just, state_lasts_ms=2 * needed_ms).is_perishable(NOW_MS, NOW_MS)


def test_the_margin_for_sessions_is_the_longest_that_is_asked_for() -> None:
    assert max(SESSIONS_S) == SESSION_MOST_S


def test_a_perishable_batch_goes_alone(copy: PartitionCopy) -> None:
    give(copy, batch(0), batch(1), old_batch(2), old_batch(3))
    append(copy)
    assert phase_of(copy) is Phase.STREAM
    copy.take()
    assert copy.peek() is None  # a fresh one before it has no answer yet
    copy.appended(1)
    assert copy.take().start.source == 2
    assert copy.peek() is None
    copy.appended(2)
    assert copy.take().start.source == 3


def test_a_fresh_batch_does_not_follow_a_perishable_one_before_its_acknowledgement(
    copy: PartitionCopy,
) -> None:
    give(copy, batch(0), old_batch(1), batch(2))
    append(copy)
    copy.take()
    assert copy.peek() is None
    copy.appended(1)
    assert copy.take().start.source == 2


def test_after_a_perishable_batch_the_next_one_probes_again(copy: PartitionCopy) -> None:
    give(copy, batch(0), old_batch(1), batch(2), batch(3))
    append(copy)
    append(copy)
    assert phase_of(copy) is Phase.PROBE
    copy.take()
    assert copy.peek() is None
    copy.appended(2)
    assert phase_of(copy) is Phase.STREAM


def wants(copy: PartitionCopy) -> bool:
    return copy.wants_exclusion


def test_exclusion_is_wanted_from_when_a_perishable_batch_waits_until_its_answer(copy: PartitionCopy) -> None:
    give(copy, batch(0))
    assert not wants(copy)
    give(copy, old_batch(1))
    assert wants(copy)  # though a fresh one goes first
    append(copy)
    copy.take()
    assert wants(copy)  # it is on its way
    copy.appended(1)
    assert not wants(copy)


@pytest.mark.parametrize("end", ["retired", "lost"])
def test_exclusion_is_not_wanted_for_what_will_not_be_sent(copy: PartitionCopy, end: str) -> None:
    give(copy, old_batch(0), old_batch(1))
    if end == "lost":
        copy.take()
        copy.lost(BROKEN, NOW_S)
    else:
        copy.retire()
    assert not wants(copy)


def test_a_copy_that_must_not_send_yet_is_bound_by_nothing() -> None:
    copy = PartitionCopy(spec_of(), 1 << 20, clear_at=NOW_S + 30)
    copy.synced(synced_at(0, state_ms=NOW_MS))
    give(copy, old_batch(0))
    assert copy.awaits_clearance
    assert copy.bound_by(NOW_S) is None


def test_what_waits_keeps_its_trouble_while_the_source_has_nothing_more(copy: PartitionCopy) -> None:
    waits = Trouble(Event.LEASE_WAIT, "appends wait for the driver")
    give(copy, old_batch(0))
    copy.trouble = waits
    give(copy)
    assert copy.trouble == waits
    copy.take()
    give(copy)
    assert copy.trouble == waits
    copy.appended(0)
    assert copy.trouble is None


def test_a_perishable_batch_is_not_sent_before_it_is_clear() -> None:
    copy = PartitionCopy(spec_of(), 1 << 20, clear_at=NOW_S + 30)
    copy.synced(synced_at(0))
    give(copy, batch(0), old_batch(1))
    append(copy)
    assert copy.peek() is None
    assert copy.awaits_clearance


@pytest.mark.parametrize("waits", [True, False])
def test_when_it_is_clear_the_target_is_asked_again(waits: bool) -> None:
    """Also with nothing at hand: what the target said before it was clear may be out of date by now."""
    copy = PartitionCopy(spec_of(), 1 << 20, clear_at=NOW_S + 30)
    copy.synced(synced_at(0))
    if waits:
        give(copy, old_batch(0))
    copy.cleared(NOW_S + 30)
    assert copy.wants_resync
    assert copy.trouble is not None
    assert copy.trouble.event is Event.LEASE_WAIT
    copy.synced(synced_at(1))
    give(copy, old_batch(1))
    assert copy.take().start.source == 1


@pytest.mark.parametrize("first", [batch(0), old_batch(0)], ids=["fresh", "perishable"])
def test_a_lost_batch_takes_the_clearance_away(copy: PartitionCopy, first: bytearray) -> None:
    """A fresh one too: behind a perishable batch the broker would not know it again."""
    give(copy, first)
    copy.take()
    copy.lost(BROKEN, NOW_S)
    copy.synced(synced_at(0))
    give(copy, old_batch(0))
    assert copy.peek() is None
    assert copy.awaits_clearance


@pytest.mark.parametrize("state_ms", [None, OLD_MS])
def test_a_broker_that_may_have_forgotten_us_is_probed(state_ms: int | None) -> None:
    copy = copy_at(5, state_ms)
    give(copy, batch(5), batch(6))
    copy.take()
    assert copy.peek() is None


def test_after_long_idleness_the_next_batch_probes_again(copy: PartitionCopy) -> None:
    give(copy, batch(0))
    append(copy)
    assert phase_of(copy) is Phase.STREAM
    later_ms = NOW_MS + DAY_MS
    give(copy, batch(1, timestamp=later_ms), batch(2, timestamp=later_ms), now_ms=later_ms)
    copy.take()
    assert copy.peek() is None


def test_a_short_idleness_is_no_reason_to_probe(copy: PartitionCopy) -> None:
    give(copy, batch(0))
    append(copy)
    give(copy, batch(1), batch(2), now_ms=NOW_MS + DAY_MS // 4)
    assert [copy.take().start.source, copy.take().start.source] == [1, 2]


# -- the lane


async def test_old_records_are_copied_identically_one_append_at_a_time() -> None:
    async with world() as it:
        it.create(0, 20, timestamp=OLD_MS)
        write(it.source.logs[place(0)], 20)
        write(it.source.logs[place(0)], 20, timestamp=OLD_MS)
        it.assign(0)
        await until(lambda: it.is_copied(0))
        it.assert_identical(0)
        assert it.target.line(1, CAREFUL).most_in_flight == 1


async def test_fresh_records_need_a_lease_that_is_alive_and_old_ones_an_exclusive_one() -> None:
    clock = Clock()
    async with world(lease=Lease(clock), partition_bytes=1 << 10) as it:
        it.create(0, 5)
        it.create(2, 5, timestamp=OLD_MS)
        it.assign(0)
        it.assign(2)
        await asyncio.sleep(0.1)
        assert it.target.logs[place(0)].end == 0  # not a word of the driver yet
        it.lane.renew(LINK, clock.now, 0)
        await until(lambda: it.is_copied(0))
        await asyncio.sleep(0.1)
        assert it.target.logs[place(2)].end == 0
        clock.now += ALIVE_S
        write(it.source.logs[place(0)], 40, value_bytes=500)  # so much that no more is fetched
        await asyncio.sleep(0.1)
        assert not it.is_copied(0)
        it.lane.renew(LINK, clock.now, 0)  # a word of the driver, but no right
        await until(lambda: it.is_copied(0))
        assert it.target.logs[place(2)].end == 0
        it.lane.renew(LINK, clock.now, 10)
        await until(lambda: it.is_copied(2))
        for partition in (0, 2):
            it.assert_identical(partition)


async def until_sent(it: World, name: LineName) -> MemoryLine:
    line = it.target.line(1, name)
    await until(lambda: not line.idle)
    return line


def execute(it: World, requests: list[Request]) -> None:
    for request in requests:
        for where, data in request.batches:
            it.target.logs[where].append(memoryview(bytearray(data)))


async def test_a_lapse_of_the_exclusive_lease_closes_careful_lines_only_and_a_renewal_goes_on() -> None:
    clock = Clock()
    async with world(lease=Lease(clock), flight_ms=200) as it:
        it.lane.renew(LINK, clock.now, 10)
        it.create(0, 5)
        it.create(2, 5, timestamp=OLD_MS)
        it.target.frozen.add(1)
        it.assign(0)
        it.assign(2)
        ordinary, careful = await until_sent(it, ORDINARY), await until_sent(it, CAREFUL)
        it.lane.lapse()
        assert not careful.closed
        clock.now += 10
        it.lane.lapse()
        assert careful.closed
        assert not ordinary.closed
        it.target.thaw(1)
        await until(lambda: it.is_copied(0))
        await asyncio.sleep(0.3)
        assert it.target.logs[place(2)].end == 0
        it.lane.renew(LINK, clock.now, 10)
        await until(lambda: it.is_copied(2))
        it.assert_identical(2)


async def test_a_lost_perishable_append_is_waited_for_and_the_target_asked_before_the_next() -> None:
    """It executes late, when nobody counts on it any more; and is not doubled."""

    async with world(flight_ms=400) as it:
        it.create(0, 5, timestamp=OLD_MS)
        it.target.line(1, CAREFUL).frozen = True
        copy = it.assign(0)
        line = await until_sent(it, CAREFUL)
        requests = line.lose_answers()
        lost_at = asyncio.get_running_loop().time()
        await until(lambda: copy.awaits_clearance)
        execute(it, requests)
        arrived = it.target.logs[place(0)].end
        spans = it.target.spans
        await asyncio.sleep(0.2)
        assert it.target.logs[place(0)].end == arrived
        await until(lambda: it.is_copied(0))
        assert asyncio.get_running_loop().time() - lost_at >= 0.4
        assert it.target.spans > spans
        it.assert_identical(0)


async def test_a_lost_fresh_append_is_over_before_a_perishable_one_follows() -> None:
    """Were it not, it could arrive behind the perishable one, and the broker would not know it again."""

    async with world(flight_ms=400) as it:
        it.create(0, 1)
        write(it.source.logs[place(0)], 1, timestamp=OLD_MS)
        it.target.line(1, ORDINARY).frozen = True
        it.assign(0)
        line = await until_sent(it, ORDINARY)
        requests = line.lose_answers()
        await until(lambda: it.target.logs[place(0)].end > 0)
        await asyncio.sleep(0.1)
        execute(it, requests)
        await until(lambda: it.is_copied(0))
        it.assert_identical(0)


async def test_a_new_holder_waits_before_its_first_perishable_append_but_not_with_fresh_ones() -> None:
    async with world() as it:
        it.create(0, 5, timestamp=OLD_MS)
        it.create(2, 5)
        begun = asyncio.get_running_loop().time()
        it.assign(0, clear_in_s=0.4)
        it.assign(2, clear_in_s=0.4)
        await until(lambda: it.is_copied(2), 0.3)
        assert it.target.logs[place(0)].end == 0
        await until(lambda: it.is_copied(0))
        assert asyncio.get_running_loop().time() - begun >= 0.4
        it.assert_identical(0)


def zombie_appends(it: World) -> None:
    """What the last holder sent arrives at last: the first batch of partition 0."""
    first = it.source.logs[place(0)].batches[0]
    late = old_batch(0, first.header.records_count, producer_id=OURS, producer_epoch=0, base_sequence=0)
    it.target.logs[place(0)].append(memoryview(late))


async def test_what_the_last_holder_sent_arrives_while_the_new_one_waits_and_is_not_doubled() -> None:
    async with world() as it:
        it.create(0, 5, timestamp=OLD_MS)
        copy = it.assign(0, clear_in_s=0.3)
        await until(lambda: copy.awaits_clearance)
        zombie_appends(it)
        await until(lambda: it.is_copied(0))
        it.assert_identical(0)
        assert copy.stopped is None


async def test_what_the_last_holder_sent_is_not_doubled_either_when_the_source_answers_only_afterwards() -> (
    None
):
    async with world() as it:
        it.create(0, 5, timestamp=OLD_MS)
        source = it.source.logs[place(0)]
        source.held_back = source.end
        copy = it.assign(0, clear_in_s=0.2)
        await until(lambda: copy.flowing)
        zombie_appends(it)
        await asyncio.sleep(0.3)
        source.held_back = 0
        await until(lambda: it.is_copied(0))
        it.assert_identical(0)
        assert copy.stopped is None


async def test_a_revoked_partition_tells_whether_something_may_still_arrive() -> None:
    async with world(flight_ms=300) as it:
        it.create(0, 5, timestamp=OLD_MS)
        it.create(2, 5, timestamp=OLD_MS)
        it.target.line(1, CAREFUL).frozen = True
        it.assign(0)
        it.assign(2)
        line = await until_sent(it, CAREFUL)
        revoking = asyncio.create_task(it.lane.revoke(mirror(0)))
        await asyncio.sleep(0)
        line.lose_answers()
        assert not await revoking
        await until(lambda: it.is_copied(2))
        assert await it.lane.revoke(mirror(2))


async def test_a_drained_lane_tells_whether_something_may_still_arrive() -> None:
    async with world() as it:
        it.create(0, 5, timestamp=OLD_MS)
        it.target.line(1, CAREFUL).frozen = True
        it.assign(0)
        line = await until_sent(it, CAREFUL)
        draining = asyncio.create_task(it.lane.drain())
        await asyncio.sleep(0)
        line.lose_answers()
        assert not await draining


async def test_a_lane_wants_exclusion_of_the_links_that_have_old_records_only_while_they_wait() -> None:
    clock = Clock()
    lease = Lease(clock)
    lease.renew(clock.now, 0)
    async with world(lease=lease) as it:
        it.create(0, batches=2)
        it.create(1)
        it.assign(0)
        it.assign(1)
        await until(lambda: it.is_copied(0))
        assert it.lane.wants_exclusion() == []
        write(it.source.logs[place(1)], 2, timestamp=OLD_MS)
        await until(lambda: it.lane.wants_exclusion() == [LINK])
        copy = it.lane.copies[mirror(1)]
        assert copy.trouble is None  # it takes a heartbeat to get one: no trouble yet
        clock.now += TOLD_AFTER_S
        it.lane.renew(LINK, clock.now, 0)
        write(it.source.logs[place(1)], 1, timestamp=OLD_MS)
        await until(lambda: copy.trouble is not None)
        assert copy.trouble is not None
        assert copy.trouble.event is Event.LEASE_WAIT
        it.lane.renew(LINK, clock.now, 10.0)
        await until(lambda: it.is_copied(1) and it.lane.wants_exclusion() == [])
        assert copy.trouble is None


async def test_fresh_records_that_wait_for_the_drivers_word_say_so_though_nothing_else_happens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the driver would take their lane for one that hangs."""
    monkeypatch.setattr(sender, "TOLD_AFTER_S", 0.05)
    clock = Clock()
    async with world(lease=Lease(clock)) as it:
        it.create(0, batches=2)
        it.assign(0)
        copy = it.lane.copies[mirror(0)]
        await until(lambda: copy.peek() is not None)
        clock.now += 0.05
        await until(lambda: copy.trouble is not None)
        assert copy.trouble is sender.NO_LEASE


# -- what waits holds no memory


@pytest.mark.parametrize("missing", ["clearance", "lease"])
async def test_old_partitions_that_may_not_send_yet_do_not_starve_a_fresh_one_of_the_same_broker(
    missing: str,
) -> None:
    """Twelve of them would fill the broker's share of the lane's memory, and nothing more would be fetched for it."""
    clock = Clock()
    async with world(memory_bytes=1 << 16, partition_bytes=1 << 13, lease=Lease(clock)) as it:
        it.lane.renew(LINK, clock.now, 10 if missing == "clearance" else 0)
        for partition in range(12):
            it.create(partition)
            write(it.source.logs[place(partition)], 40, value_bytes=500, timestamp=OLD_MS)
            it.assign(partition, clear_in_s=30 if missing == "clearance" else 0)
        await asyncio.sleep(0.3)
        it.create(20)
        write(it.source.logs[place(20)], 40, value_bytes=500)
        it.assign(20)
        await until(lambda: it.is_copied(20), 2)
        assert it.lane.wants_exclusion() == [LINK]


async def test_what_was_left_at_the_source_is_fetched_once_it_may_be_sent() -> None:
    clock = Clock()
    async with world(lease=Lease(clock)) as it:
        it.lane.renew(LINK, clock.now, 0)
        it.create(0, 3)
        write(it.source.logs[place(0)], 5, timestamp=OLD_MS)
        write(it.source.logs[place(0)], 2)
        it.assign(0)
        fresh_end = it.source.logs[place(0)].batches[2].header.next_offset
        await until(lambda: it.target.logs[place(0)].end == fresh_end)
        for _ in range(2):
            it.lane.renew(LINK, clock.now, 10)
            await until(lambda: it.is_copied(0))
            clock.now += 20
            it.lane.lapse()  # the lease is over: nothing waits in memory for the next one
            it.lane.renew(LINK, clock.now, 0)
            write(it.source.logs[place(0)], 5, timestamp=OLD_MS)
            await asyncio.sleep(0.1)
            assert not it.is_copied(0)
        it.lane.renew(LINK, clock.now, 10)
        await until(lambda: it.is_copied(0))
        it.assert_identical(0)


def test_a_lease_that_ends_gives_the_memory_of_old_batches_back_and_keeps_the_fresh_ones(
    copy: PartitionCopy,
) -> None:
    budget = give(copy, batch(0), old_batch(1), batch(2))
    copy.leased(exclusive=False)
    assert copy.fetch_offset() is None
    append(copy)
    assert budget.used_bytes == 0
    assert (copy.peek(), copy.awaits_lease) == (None, True)
    copy.leased(exclusive=True)
    assert copy.fetch_offset() == 1


def test_a_lease_is_wanted_until_what_was_left_at_the_source_is_here(copy: PartitionCopy) -> None:
    """A fetch that others began may take long: the lease ran out meanwhile, the batch was left again, and so on."""
    asked = copy.fetch_offset()
    assert asked is not None
    give_reply(copy, fetched(old_batch(0)), asked, exclusive=False)
    assert copy.fetch_offset() is None
    copy.leased(exclusive=True)
    assert copy.fetch_offset() == 0
    assert wants(copy)
    give(copy, old_batch(0))
    append(copy)
    assert not wants(copy)


async def test_what_may_be_sent_now_does_not_wait_out_the_others_long_poll() -> None:
    clock = Clock()
    async with world(lease=Lease(clock), fetch_wait_ms=3_000) as it:
        it.lane.renew(LINK, clock.now, 0)
        it.create(0, 3)
        it.create(1, 3, timestamp=OLD_MS)
        it.assign(0)
        it.assign(1)
        await until(lambda: it.is_copied(0))
        await asyncio.sleep(0.3)  # a fetch for the first one waits at the source
        it.lane.renew(LINK, clock.now, 10)
        await until(lambda: it.is_copied(1), 1.0)


# -- somebody else appends what only we may


@pytest.mark.parametrize("told", ["a duplicate", "out of order"])
def test_a_race_over_old_records_under_an_exclusive_lease_stops_the_partition(
    copy: PartitionCopy, told: str
) -> None:
    """Nobody else can have a right to append, and nothing would compare the next one: a rule is broken somewhere."""
    give(copy, old_batch(0), old_batch(1))
    append(copy)
    copy.take()
    if told == "a duplicate":
        copy.appended(0)
    else:
        copy.refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "")
    copy.synced(synced_at(2))
    assert copy.stopped is not None
    assert copy.stopped.reason is StopReason.RIVAL
    assert "offset 1" in copy.stopped.message


def test_a_race_over_old_records_counts_also_when_a_leader_has_moved_meanwhile(copy: PartitionCopy) -> None:
    give(copy, old_batch(0), old_batch(1))
    append(copy)
    copy.take()
    copy.interrupted(Trouble(Event.LEADER_MOVED, "the target partition has a new leader"))
    copy.refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "")
    copy.synced(synced_at(2))
    assert copy.stopped is not None
    assert copy.stopped.reason is StopReason.RIVAL


def test_a_truncated_target_that_refuses_old_records_is_no_race(copy: PartitionCopy) -> None:
    give(copy, old_batch(0), old_batch(1))
    append(copy)
    copy.take()
    copy.refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "")
    copy.synced(synced_at(0))
    assert copy.stopped is None
    assert [notice.event for notice in copy.notices] == [Event.TARGET_TRUNCATED]


def test_a_race_over_fresh_records_is_none(copy: PartitionCopy) -> None:
    give(copy, batch(0), batch(1))
    append(copy)
    copy.take()
    copy.refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "")
    copy.synced(synced_at(2))
    assert copy.stopped is None


def test_an_obstacle_behind_old_records_that_are_left_at_the_source_is_met_again(copy: PartitionCopy) -> None:
    """It stayed in the way when the lease lapsed, and the copy stood still for ever without a word."""
    cut = bytearray(batch(1))
    cut[8:12] = (1).to_bytes(4, "big")  # no batch is that short
    give(copy, old_batch(0), cut)
    copy.leased(exclusive=False)
    copy.leased(exclusive=True)
    assert copy.stopped is None
    assert copy.fetch_offset() == 0
    give(copy, old_batch(0), cut)
    append(copy)
    assert copy.stopped is not None
    assert copy.stopped.reason is StopReason.CORRUPT
    assert copy.next_offset == 1
