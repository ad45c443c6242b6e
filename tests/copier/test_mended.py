"""Faults of the data path that were there once, each with what it did."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.cluster.receive_buffers import ReceiveBuffers
from heliograph.copier import resynchroniser, vigil
from heliograph.copier.budget import ByteBudget, Share, Shares
from heliograph.copier.fetch_limits import LEAST_FETCH_BYTES, FetchLimits
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.resynchroniser import QUESTIONS_AT_ONCE
from heliograph.model.errors import BrokerRefused
from heliograph.model.events import Event
from heliograph.model.states import BoundBy, PartitionState, StopReason
from heliograph.wire.error_codes import ErrorCode

from .lane_world import mirror, place, until, world, write
from .source_batches import BROKEN, batch, give, spec_of, synced_at

SOON_S = 2.0


# -- a source connection that breaks


async def test_a_broken_source_connection_is_read_on_from_the_known_position() -> None:
    """Every partition on it was resynchronised: thousands of questions for what no answer could change."""
    async with world() as it:
        copies = []
        for partition in range(3):
            it.create(partition, 5)
            copies.append(it.assign(partition))
        await until(lambda: all(it.is_copied(partition) for partition in range(3)))
        asked, known = it.target.spans, [copy.interruptions for copy in copies]
        it.source.fetch_fails = BROKEN
        await until(lambda: all(copy.trouble is not None for copy in copies))
        assert {copy.trouble.event for copy in copies if copy.trouble} == {Event.BROKER_AWAY}
        assert {copy.state for copy in copies} == {PartitionState.COPYING}  # what its end is, nobody knows
        it.source.fetch_fails = None
        for partition in range(3):
            write(it.source.logs[place(partition)], 5)
        await until(lambda: all(it.is_copied(partition) for partition in range(3)))
        await until(lambda: all(copy.trouble is None for copy in copies))
        assert (it.target.spans, [copy.interruptions for copy in copies]) == (asked, known)
        it.assert_identical(0)


async def test_a_source_that_does_not_compare_epochs_is_checked_after_a_broken_connection() -> None:
    """Its log may have been truncated and have grown again meanwhile, and no fetch would tell."""
    async with world() as it:
        it.source.compares_epochs = False
        it.create(0, 5)
        copy = it.assign(0)
        await until(lambda: it.is_copied(0))
        known = copy.interruptions
        it.source.fetch_fails = BROKEN
        await until(lambda: copy.interruptions > known)
        it.source.fetch_fails = None
        write(it.source.logs[place(0)], 5)
        await until(lambda: it.is_copied(0))


# -- questions to a broker that hangs


async def test_partitions_of_a_hung_target_do_not_keep_another_links_from_starting() -> None:
    """All links shared the slots for questions, and held them while they waited."""
    async with world() as it:
        it.target.hung.add(1)
        for partition in range(QUESTIONS_AT_ONCE + 8):
            it.create(partition, 1)
            it.assign(partition)
        await asyncio.sleep(0.05)
        healthy = it.second_link()
        healthy.create(0, 5)
        healthy.assign(0)
        await until(lambda: healthy.is_copied(0), SOON_S)


async def test_a_question_is_dropped_when_its_leader_moves() -> None:
    async with world() as it:
        it.create(0, 5)
        it.target.hung.add(1)
        it.assign(0)
        await asyncio.sleep(0.05)
        it.target.move(place(0), 2)
        await it.target.refresh()
        await until(lambda: it.is_copied(0), SOON_S)
        it.assert_identical(0)


# -- a topic that is there after all


async def test_a_topic_is_not_taken_for_gone_because_two_answers_far_apart_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between them nobody answered at all: nothing says that it was gone all the time."""
    monkeypatch.setattr(resynchroniser, "MISSING_LIMIT_S", 0.5)
    gone = BrokerRefused("no such topic", code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    async with world() as it:
        it.create(0, 5)
        it.target.asked_fails = gone
        copy = it.assign(0)
        await until(lambda: it.target.asked > 0)
        it.target.asked_fails = BROKEN
        await asyncio.sleep(0.6)
        it.target.asked_fails, asked = gone, it.target.asked
        await until(lambda: it.target.asked > asked)
        it.target.asked_fails = None
        await until(lambda: it.is_copied(0) or copy.stopped is not None)
        assert copy.stopped is None


async def test_a_topic_is_not_taken_for_gone_by_an_answer_that_nobody_has_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cluster is away since then, and its last metadata is asked again and again."""
    monkeypatch.setattr(resynchroniser, "MISSING_LIMIT_S", 0.5)

    async def away() -> None:
        raise BROKEN

    async with world() as it:
        it.create(0, 5)
        refresh = it.target.refresh
        it.target.asked_fails = BrokerRefused("no such topic", code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        monkeypatch.setattr(it.target, "refresh", away)
        copy = it.assign(0)
        await until(lambda: it.target.asked > 0)
        await asyncio.sleep(1.0)
        it.target.asked_fails = None
        monkeypatch.setattr(it.target, "refresh", refresh)
        await until(lambda: it.is_copied(0) or copy.stopped is not None)
        assert copy.stopped is None


# -- a target that rewrites what it is given


async def test_an_append_that_the_broker_stamped_with_its_own_time_stops_the_partition() -> None:
    """Every timestamp was rewritten, with success."""
    async with world() as it:
        it.create(0, 5)
        it.create(1, 5)
        copy, other = it.assign(0), it.assign(1)
        await until(lambda: it.is_copied(0) and it.is_copied(1))
        it.target.stamps.add("orders")
        write(it.source.logs[place(0)], 5)
        await until(lambda: copy.stopped is not None)
        assert copy.stopped is not None
        assert copy.stopped.reason is StopReason.TOPIC_CONFIG
        assert "message.timestamp.type" in copy.stopped.hint
        assert other.stopped is None


@pytest.mark.parametrize(
    ("key", "value"), [("compression.type", "zstd"), ("message.timestamp.type", "LogAppendTime")]
)
async def test_a_config_that_is_switched_while_running_stops_the_topics_partitions(
    monkeypatch: pytest.MonkeyPatch, key: str, value: str
) -> None:
    """Batches that are compressed anew show in no answer: the configs are read again every few seconds."""
    monkeypatch.setattr(vigil, "LOOK_S", 0.02)
    monkeypatch.setattr(vigil, "CONFIGS_S", 0.05)
    async with world() as it:
        it.create(0, 5)
        copy = it.assign(0)
        await until(lambda: it.is_copied(0))
        await asyncio.sleep(0.2)
        assert copy.stopped is None
        it.target.configs["orders"] = {key: value}
        await until(lambda: copy.stopped is not None)
        assert copy.stopped is not None
        assert copy.stopped.reason is StopReason.TOPIC_CONFIG
        assert f"{key}={value}" in copy.stopped.message


def test_a_duplicate_that_is_answered_with_the_batchs_own_time_stops_nothing() -> None:
    copy = PartitionCopy(spec_of(), 1 << 20)
    copy.synced(synced_at(0))
    give(copy, batch(0), batch(1))
    for _ in range(2):
        append = copy.take()
        copy.appended(append.start.target, append.max_timestamp)
    assert copy.stopped is None
    assert copy.next_offset == 2


# -- quotas


async def test_a_copy_that_a_quota_holds_up_says_so_and_goes_on_one_request_at_a_time() -> None:
    """It looked like a lane that hangs: something to send, nobody waited for, no advance."""
    async with world() as it:
        it.create(0, 30)
        copy = it.assign(0)
        it.target.throttle_ms = 150
        loop = asyncio.get_running_loop()
        await until(lambda: copy.bound_by(loop.time()) is BoundBy.QUOTA)
        line = it.target.line(1)
        await until(lambda: line.idle)
        line.most_in_flight = 0
        await asyncio.sleep(0.4)
        assert line.most_in_flight <= 1
        assert not it.is_copied(0)
        it.target.throttle_ms = 0
        await until(lambda: it.is_copied(0))
        it.assert_identical(0)
        await until(lambda: copy.bound_by(loop.time()) is BoundBy.SOURCE)


async def test_a_copy_whose_source_holds_it_to_a_quota_says_so() -> None:
    async with world() as it:
        it.create(0, 5)
        it.source.throttle_ms = 200
        copy = it.assign(0)
        loop = asyncio.get_running_loop()
        await until(lambda: it.is_copied(0))
        write(it.source.logs[place(0)], 5)
        await until(lambda: copy.bound_by(loop.time()) is BoundBy.QUOTA)
        await until(lambda: it.is_copied(0))


# -- who waits behind others


async def test_what_waits_behind_others_appends_at_a_broker_waits_for_the_broker() -> None:
    """It was told as the lane's doing, and nobody else told of the broker when the others were taken from the lane."""
    async with world() as it:
        for partition in (0, 2):
            it.create(partition, 3)
        first, second = it.assign(0), it.assign(2)
        await until(lambda: it.is_copied(0) and it.is_copied(2))
        line = it.target.line(1)
        line.frozen, line.most_in_flight = True, 0
        write(it.source.logs[place(0)], 40)
        await until(lambda: line.most_in_flight >= 5)
        write(it.source.logs[place(2)], 1)
        loop = asyncio.get_running_loop()
        await until(lambda: second.peek() is not None)
        assert second.bound_by(loop.time()) is BoundBy.TARGET
        assert first.bound_by(loop.time()) is BoundBy.TARGET
        line.thaw()
        await until(lambda: it.is_copied(0) and it.is_copied(2))
        await until(lambda: second.bound_by(loop.time()) is BoundBy.SOURCE)


# -- memory


@given(
    memory_bytes=st.integers(1 << 16, 1 << 30),
    fetchers=st.integers(1, 50),
    partitions=st.integers(1, 2_000),
    fetch_bytes=st.integers(1 << 16, 1 << 28),
)
def test_the_buffers_of_all_fetches_at_once_stay_in_a_quarter_of_the_lanes_memory(
    memory_bytes: int, fetchers: int, partitions: int, fetch_bytes: int
) -> None:
    """Buffers are powers of two: rounded up they took twice of what was counted."""
    limits = FetchLimits(ByteBudget(memory_bytes), lambda: fetchers, fetch_bytes, 1 << 20, 500)
    asked_bytes = limits.buffer_bytes(partitions)
    buffer = ReceiveBuffers().take(asked_bytes).obj
    assert isinstance(buffer, bytearray)
    assert len(buffer) == asked_bytes
    assert asked_bytes <= fetch_bytes
    assert asked_bytes * fetchers <= max(memory_bytes // 4, LEAST_FETCH_BYTES * fetchers)


async def test_what_a_fetch_answer_keeps_alive_is_counted_and_not_just_its_records() -> None:
    async with world() as it:
        it.create(0)
        write(it.source.logs[place(0)], 3, value_bytes=100)
        it.source.buffer_bytes = 50_000
        it.target.frozen.add(1)
        copy = it.assign(0)
        await until(lambda: not copy.settled)
        await until(lambda: it.lane._budget.used_bytes in range(50_000, 50_000 + (1 << 14) + 1))


def test_only_brokers_that_lead_a_copy_or_pin_something_share_the_budget() -> None:
    """Every broker that had ever been seen took its part, for good."""
    turned: list[Share] = []
    shares = Shares(ByteBudget(1200), on_turn=turned.append)
    for broker in range(6):
        shares.of(broker).join()
    assert shares.limit_bytes == 200
    for broker in range(2, 6):
        shares.of(broker).leave()
    assert shares.limit_bytes == 600
    assert not turned
    shares.of(0).pin(500)
    shares.of(3).pin(10)
    assert shares.limit_bytes == 400
    assert turned == [shares.of(0)]  # full, because there is one more
    shares.of(3).unpin(10)
    assert shares.limit_bytes == 600
    assert turned == [shares.of(0), shares.of(0)]
    shares.of(1).pin(600)
    assert turned[2:] == [shares.of(1)]


async def test_a_partition_that_is_taken_back_leaves_its_brokers_share() -> None:
    async with world() as it:
        for partition in range(3):
            it.create(partition, 1, target_node=partition)
            it.assign(partition)
        await until(lambda: all(it.is_copied(partition) for partition in range(3)))
        fetched_bytes = it.lane._budget.limit_bytes
        assert it.lane._shares.limit_bytes == fetched_bytes // 3
        await it.lane.revoke(mirror(2))
        assert it.lane._shares.limit_bytes == fetched_bytes // 2
