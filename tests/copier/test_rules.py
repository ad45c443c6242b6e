"""The rules of compare-and-append, by number: each has a test of its name here, with the smallest piece that shows it.

What else follows from a rule is tested where that piece is: test_resync, test_partition_copy, test_perishable,
test_lines, test_vigil, test_lease, and tests/cluster.
"""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from heliograph.cluster.line_name import LineName
from heliograph.cluster.list_offsets import OURSELVES
from heliograph.cluster.log_reads import read_span
from heliograph.cluster.producer_states import ProducerState
from heliograph.copier import lane as lane_module
from heliograph.copier import vigil
from heliograph.copier.lease import ALIVE_S, Lease
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.phases import Phase
from heliograph.copier.questions import Question, ReadProducers, Unsettled
from heliograph.model.errors import ProtocolError
from heliograph.model.events import Event
from heliograph.model.partition import TopicPartition
from heliograph.model.states import StopReason
from heliograph.wire.batch import read_header
from heliograph.wire.error_codes import ErrorCode
from tests.cluster.test_log_reads import FakeClient, span_of

from .lane_world import LINK, Clock, place, refuse, until, world, write
from .source_batches import (
    BROKEN,
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
    synced_at,
)
from .two_logs import ask, half_way, log_of, state, stop_of


def streaming() -> PartitionCopy:
    """Offset 0 is acknowledged, [1, 5) waits in four batches."""
    copy = copy_at(0)
    give(copy, *(batch(at) for at in range(5)))
    copy.take()
    copy.appended(0)
    return copy


# -- 1: resynchronise


def test_rule_01_the_sequence_is_read_before_and_after_the_log_end_until_both_agree() -> None:
    logs = half_way()
    readings = iter([state(1), state(4), state(4), state(4)])

    def another_copier_appends(question: Question) -> None:
        if isinstance(question, ReadProducers):
            logs.producer = next(readings)

    logs.change = another_copier_appends
    assert ask(logs) == 5
    assert logs.asked.count(Unsettled()) == 1


@pytest.mark.parametrize("next_offset", [0, 7, (1 << 31) + 7])
def test_rule_01_without_state_the_sequence_begins_with_the_log_end(next_offset: int) -> None:
    copy = copy_at(next_offset, state_ms=None)
    give(copy, batch(next_offset))
    assert read_header(copy.take().batch).base_sequence == next_offset % (1 << 31)


# -- 2: the log end


async def test_rule_02_the_log_end_is_asked_for_under_an_id_of_our_own_with_the_leader_epoch() -> None:
    client: Any = FakeClient(span_of(0, 3, 5))
    assert (await read_span(client, TopicPartition("orders", 0))).end == 5
    question = client.asked[-1]
    assert question.replica_id == OURSELVES not in (-1, -2)
    assert question.topics[0].partitions[0].current_leader_epoch == 7


async def test_rule_02_an_end_below_the_high_watermark_is_no_answer() -> None:
    client: Any = FakeClient(span_of(0, 9, 5))
    with pytest.raises(ProtocolError):
        await read_span(client, TopicPartition("orders", 0))


# -- 3: the anchor


def test_rule_03_a_foreign_record_at_the_targets_end_stops_instead_of_hiding_one_of_the_sources() -> None:
    logs = half_way()
    logs.target = [*logs.target, log_of([2, 3, 1])[2]]
    assert stop_of(logs).reason == StopReason.FOREIGN


def test_rule_03_a_last_batch_that_differs_from_the_sources_stops() -> None:
    logs = half_way()
    other = memoryview(batch(2, 3, value_bytes=9))
    logs.source[1] = (read_header(other), other)
    assert stop_of(logs).reason == StopReason.ANCHOR


# -- 4: the first append


def test_rule_04_the_first_append_after_a_resynchronisation_goes_alone() -> None:
    copy = copy_at(0)
    give(copy, batch(0), batch(1))
    copy.take()
    assert copy.peek() is None
    copy.appended(0)
    assert copy.peek() is not None


@pytest.mark.parametrize("refusals", [[0], [0, 1], [0, 3, 4]])
async def test_rule_04_a_first_append_that_is_refused_lets_no_later_one_take_its_place(
    refusals: list[int],
) -> None:
    """The broker holds no state: whatever came next would count as the first ever."""

    async with world() as it:
        it.create(0, 20)
        refuse(it.target, ErrorCode.NOT_ENOUGH_REPLICAS, lambda number: number in refusals)
        it.assign(0)
        await until(lambda: it.is_copied(0))
        it.assert_identical(0)


async def test_rule_04_a_first_batch_that_is_too_large_stops_with_nothing_appended() -> None:
    async with world() as it:
        it.create(0, 20)
        first = [ErrorCode.MESSAGE_TOO_LARGE]
        it.target.fault = lambda _where: first.pop() if first else None
        copy = it.assign(0)
        await until(lambda: copy.stopped is not None)
        await asyncio.sleep(0.05)
        assert it.target.logs[place(0)].end == 0


def test_rule_04_on_perishable_state_one_append_is_in_flight() -> None:
    copy = copy_at(0)
    give(copy, old_batch(0), old_batch(1), batch(2))
    for offset in range(2):
        assert copy.take().start.source == offset
        assert copy.peek() is None
        copy.appended(offset)
    assert phase_of(copy) is Phase.PROBE


# -- 5: acknowledgements


def test_rule_05_an_acknowledgement_below_the_expected_offset_resynchronises() -> None:
    copy = streaming()
    copy.take()
    copy.appended(0)
    assert copy.wants_resync
    assert copy.next_offset == 1


@pytest.mark.parametrize("already", ["streaming", "drained", "retired"])
def test_rule_05_an_acknowledgement_above_the_expected_offset_stops_loudly_whenever_it_comes(
    already: str,
) -> None:
    copy = streaming()
    copy.take()
    copy.take()
    if already == "drained":
        copy.lost(BROKEN, NOW_S)
    elif already == "retired":
        copy.retire()
    copy.appended(7)
    assert copy.stopped is not None
    assert copy.stopped.reason == StopReason.WRONG_PLACE


# -- 6: unknown outcomes


def test_rule_06_after_an_unknown_outcome_all_answers_are_read_and_nothing_is_sent_before_the_target_is_asked() -> (
    None
):
    copy = streaming()
    for _ in range(3):
        copy.take()
    copy.refused(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, "")
    assert phase_of(copy) is Phase.DRAIN
    copy.appended(2)
    assert phase_of(copy) is Phase.DRAIN
    copy.lost(BROKEN, NOW_S)
    assert copy.wants_resync
    assert copy.peek() is None
    assert copy.next_offset == 1


async def test_rule_06_an_append_that_executed_though_its_answer_was_lost_is_not_doubled() -> None:
    async with world() as it:
        it.create(0, 5)
        line = it.target.line(1)
        line.frozen = True
        it.assign(0)
        await until(lambda: not line.idle)
        for request in line.lose_answers():
            for where, data in request.batches:
                it.target.logs[where].append(memoryview(bytearray(data)))
        await until(lambda: it.is_copied(0))
        it.assert_identical(0)


# -- 7: drift


@pytest.mark.parametrize("lasting", [True, False])
async def test_rule_07_a_sequence_that_does_not_fit_is_asked_for_once_more_with_fresh_metadata_then_stops(
    lasting: bool,
) -> None:
    async with world() as it:
        it.create(0, 5)
        it.assign(0)
        await until(lambda: it.is_copied(0))
        await it.lane.revoke(next(iter(it.lane.copies)))
        honest, asked, refreshes = it.target.producers, 0, it.target.refreshes

        async def drifted(where: TopicPartition) -> dict[int, ProducerState]:
            nonlocal asked
            asked += 1
            if lasting or asked <= 2:
                return {OURS: ProducerState(epoch=0, last_sequence=3, last_timestamp=NOW_MS)}
            return await honest(where)

        it.target.producers = drifted  # type: ignore[method-assign]
        write(it.source.logs[place(0)], 5)
        copy = it.assign(0)
        await until(lambda: copy.stopped is not None or it.is_copied(0))
        assert it.target.refreshes > refreshes
        if lasting:
            assert copy.stopped is not None
            assert copy.stopped.reason == StopReason.SEQUENCE
            assert asked == 4  # two readings, twice
        else:
            it.assert_identical(0)


# -- 8: recreated targets


async def test_rule_08_appends_name_the_topic_by_its_id_and_a_recreated_one_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lane_module, "LOOK_INTERVAL_S", 0.1)
    monkeypatch.setattr(lane_module, "ROUTE_INTERVAL_S", 0.05)
    first, second = UUID(int=1), UUID(int=2)

    async with world() as it:
        it.target.topic_ids["orders"] = str(first)
        it.create(0, 5)
        copy = it.assign(0)
        await until(lambda: it.is_copied(0))
        it.target.topic_ids["orders"] = str(second)
        await until(lambda: copy.stopped is not None)
        assert copy.stopped is not None
        assert copy.stopped.reason == StopReason.RECREATED
        assert {sent.topic_id for sent in it.target.deliveries} == {first.bytes}


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    ],
)
async def test_rule_08_a_refusal_that_may_mean_another_topic_compares_topic_ids_before_the_next_append(
    code: int,
) -> None:
    async with world() as it:
        it.target.topic_ids["orders"] = str(UUID(int=1))
        it.create(0, 5)

        def recreated(_where: TopicPartition) -> int | None:
            it.target.topic_ids["orders"] = str(UUID(int=2))
            return code

        it.target.fault = recreated
        copy = it.assign(0)
        await until(lambda: copy.stopped is not None)
        assert copy.stopped is not None
        assert copy.stopped.reason == StopReason.RECREATED
        assert len(it.target.deliveries) == 1


# -- 9: truncated sources


async def test_rule_09_a_fetch_names_the_leader_epoch_and_that_of_the_last_batch() -> None:
    async with world() as it:
        it.create(0)
        source = it.source.logs[place(0)]
        source.store(batch(0, leader_epoch=4))
        source.store(batch(1, leader_epoch=6))
        it.source.move(place(0), 1)
        await it.source.refresh()
        it.assign(0)
        await until(lambda: any(want.next_offset == 2 for want in it.source.wants))
        want = it.source.wants[-1]
        assert (want.leader_epoch, want.last_fetched_epoch) == (1, 6)


def test_rule_09_a_diverging_source_stops_a_target_that_holds_what_is_gone() -> None:
    copy = copy_at(10, source_epoch=6)
    give_reply(copy, fetched(diverging=(5, 8)), 10)
    assert copy.wants_resync
    assert copy.trouble is not None
    assert copy.trouble.event is Event.SOURCE_DIVERGED
    copy.synced(synced_at(10))
    assert copy.stopped is not None
    assert copy.stopped.reason == StopReason.DIVERGED
    assert "[8, 10)" in copy.stopped.message


def test_rule_09_a_diverging_source_does_not_stop_a_target_that_is_not_that_far() -> None:
    copy = copy_at(8, source_epoch=6)
    give(copy, batch(8, leader_epoch=6))  # fetched, not yet appended, and gone from the source by now
    asked = copy.fetch_offset()
    assert asked is not None
    give_reply(copy, fetched(diverging=(5, 8)), asked)
    assert copy.peek() is None
    copy.synced(synced_at(8, source_epoch=5))
    assert copy.stopped is None
    give(copy, batch(8, leader_epoch=7))
    assert copy.take().start.source == 8


async def test_rule_09_a_source_truncated_and_grown_again_stops_the_lanes_copy() -> None:
    async with world() as it:
        it.create(0)
        source = it.source.logs[place(0)]
        for at in range(6):
            source.store(batch(at, leader_epoch=4))
        copy = it.assign(0)
        await until(lambda: it.is_copied(0))
        source.truncate(3)
        for at in range(3, 9):
            source.store(batch(at, leader_epoch=5, value_bytes=9))
        it.source.diverging[place(0)] = (3, 3)
        await until(lambda: copy.stopped is not None)
        assert copy.stopped is not None
        assert copy.stopped.reason in (StopReason.DIVERGED, StopReason.ANCHOR)
        assert it.target.logs[place(0)].end == 6


# -- 10: silent truncations of the target


async def test_rule_10_an_idle_copy_reads_the_targets_end_again_and_copies_what_was_truncated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vigil, "LOOK_S", 0.05)

    async with world() as it:
        it.create(0, 10)
        copy = it.assign(0)
        await until(lambda: it.is_copied(0))
        target = it.target.logs[place(0)]
        target.truncate(target.batches[3].header.next_offset)
        await until(lambda: it.is_copied(0))
        it.assert_identical(0)
        assert [notice.event for notice in copy.notices] == [Event.TARGET_TRUNCATED]


async def test_rule_10_at_a_leader_change_the_targets_end_is_read_again() -> None:
    async with world() as it:
        it.create(0, 10)
        copy = it.assign(0)
        await until(lambda: it.is_copied(0))
        target = it.target.logs[place(0)]
        target.truncate(target.batches[3].header.next_offset)
        it.target.move(place(0), 2)
        await it.target.refresh()
        await until(lambda: it.is_copied(0))
        it.assert_identical(0)
        assert [notice.event for notice in copy.notices] == [Event.TARGET_TRUNCATED]


# -- 11: leases


@pytest.mark.parametrize(
    ("timestamp", "careful", "lasts_s"), [(OLD_MS, True, 10), (NOW_MS, False, ALIVE_S)], ids=["old", "fresh"]
)
async def test_rule_11_the_lease_is_looked_at_right_before_an_append_leaves(
    timestamp: int, careful: bool, lasts_s: float
) -> None:
    """What a frozen lane finds in its hands when it thaws: the permit is asked before the last byte, and says no."""

    clock = Clock()
    async with world(lease=Lease(clock)) as it:
        it.lane.renew(LINK, clock.now, 10)
        it.create(0, 5, timestamp=timestamp)
        line = it.target.line(1, LineName(0, careful=careful))
        line.clogged = True
        it.assign(0)
        await until(lambda: not line.idle)
        clock.now += lasts_s
        line.unclog()
        await asyncio.sleep(0.05)
        assert line.closed
        assert it.target.logs[place(0)].end == 0


async def test_rule_11_a_taker_waits_until_what_the_last_holder_sent_is_over_and_reads_the_target_only_then() -> (
    None
):
    async with world() as it:
        it.create(0, 5, timestamp=OLD_MS)
        copy = it.assign(0, clear_in_s=0.3)
        await until(lambda: copy.awaits_clearance)
        records = it.source.logs[place(0)].batches[0].header.records_count
        late = old_batch(0, records, producer_id=OURS, producer_epoch=0, base_sequence=0)
        it.target.logs[place(0)].append(memoryview(late))
        await until(lambda: it.is_copied(0))
        it.assert_identical(0)
