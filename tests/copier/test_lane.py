"""A lane between two clusters in memory: everything arrives once and identical, whatever the brokers do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.cluster.properties import ClientProperties
from heliograph.copier import lane as lane_module
from heliograph.copier import resynchroniser
from heliograph.copier.lane import Lane
from heliograph.copier.lease import Lease
from heliograph.copier.phases import Phase
from heliograph.copier.ports import Batch
from heliograph.copier.resynchroniser import QUESTIONS_AT_ONCE
from heliograph.copier.workers import LaneLink
from heliograph.model.errors import BrokerRefused
from heliograph.model.partition import MirrorPartition, TopicPartition
from heliograph.model.policy import Isolation, LinkPolicy
from heliograph.model.states import PartitionState, StopReason
from heliograph.wire.error_codes import ErrorCode

from .lane_world import BOUND_S, MEMORY_BYTES, World, mirror, place, refuse, until, world, write
from .memory_cluster import MemoryCluster
from .memory_log import MemoryLog
from .source_batches import MIRRORED_BACK, batch, spec_of


def used_bytes(lane: Lane) -> int:
    return lane._budget.used_bytes


# -- the ordinary course


@settings(deadline=None, max_examples=15)
@given(batches=st.lists(st.integers(0, 40), min_size=1, max_size=4), small_requests=st.booleans())
def test_everything_is_copied_identically(batches: list[int], small_requests: bool) -> None:
    async def story() -> None:
        async with world(request_bytes=200 if small_requests else 1 << 16) as it:
            for partition, count in enumerate(batches):
                it.create(partition, count, source_node=partition % 2, target_node=partition % 3)
                it.assign(partition)
            await until(lambda: all(it.is_copied(p) for p in range(len(batches))))
            for partition in range(len(batches)):
                it.assert_identical(partition)

    asyncio.run(story())


@pytest.mark.parametrize("isolation", Isolation)
async def test_fetches_carry_the_isolation_of_the_partitions_policy(isolation: Isolation) -> None:
    async with world() as it:
        it.create(0, 3)
        it.lane.assign(replace(spec_of(mirror(0)), policy=LinkPolicy(isolation=isolation)))
        await until(lambda: it.is_copied(0))
        assert it.source.isolations == {isolation}


async def test_what_is_written_later_follows() -> None:
    async with world() as it:
        it.create(0, 3)
        copy = it.assign(0)
        await until(lambda: copy.state is PartitionState.CAUGHT_UP and it.is_copied(0))
        write(it.source.logs[TopicPartition("orders", 0)], 5)
        await until(lambda: it.is_copied(0))
        it.assert_identical(0)


async def test_a_copy_goes_on_where_the_target_ends() -> None:
    async with world() as first:
        first.create(0, 10)
        first.assign(0)
        await until(lambda: first.is_copied(0))
    async with world() as second:
        second.source.logs, second.target.logs = first.source.logs, first.target.logs
        second.source.leaders = second.source.believed = first.source.leaders
        second.target.leaders = second.target.believed = first.target.leaders
        write(second.source.logs[TopicPartition("orders", 0)], 10)
        second.assign(0)
        await until(lambda: second.is_copied(0))
        second.assert_identical(0)


async def test_two_lanes_on_one_partition_leave_one_copy() -> None:
    """A zombie and its successor: the sequence decides, and both find their place again (P2)."""

    async with world() as it, world() as other:
        it.create(0, 60)
        for end, twin in ((it.source, other.source), (it.target, other.target)):
            twin.logs, twin.leaders, twin.believed = end.logs, end.leaders, end.believed
        it.assign(0)
        other.assign(0)
        await until(lambda: it.is_copied(0))
        it.assert_identical(0)
        assert not it.lane.copies[mirror(0)].stopped
        assert not other.lane.copies[mirror(0)].stopped


# -- faults


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        4711,
    ],
)
async def test_a_target_that_refuses_now_and_then_gets_everything_once(code: int) -> None:
    async with world() as it:
        it.create(0, 40)
        refuse(it.target, code, lambda number: number % 5 == 4)
        it.assign(0)
        await until(lambda: it.is_copied(0))
        it.assert_identical(0)


async def test_a_target_that_keeps_refusing_is_not_hammered() -> None:
    """A refusal that lasts (an in-sync set that is too small) is retried with pauses, not as fast as it comes."""

    async with world() as it:
        it.create(0)
        write(it.source.logs[TopicPartition("orders", 0)], 300, value_bytes=2000)
        it.target.fault = lambda _where: ErrorCode.NOT_ENOUGH_REPLICAS
        it.assign(0)
        await asyncio.sleep(1.0)
        assert len(it.target.appends) <= 20


async def test_a_source_that_keeps_refusing_is_not_hammered() -> None:
    async with world() as it:
        it.create(0, 3)
        it.source.fetch_error[TopicPartition("orders", 0)] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        it.assign(0)
        await asyncio.sleep(1.0)
        assert it.source.fetches <= 20


async def test_a_batch_that_never_passes_stops_its_partition_and_no_other() -> None:
    async with world() as it:
        for partition in range(3):
            it.create(partition, 20)
        bad = TopicPartition("orders", 1)
        it.target.fault = lambda where: ErrorCode.MESSAGE_TOO_LARGE if where == bad else None
        for partition in range(3):
            it.assign(partition)
        await until(lambda: it.is_copied(0) and it.is_copied(2))
        copy = it.lane.copies[mirror(1)]
        await until(lambda: copy.stopped is not None)
        assert copy.stopped is not None
        assert copy.stopped.reason == StopReason.TOO_LARGE
        assert it.target.logs[bad].end == 0


async def test_an_obstacle_in_the_source_stops_after_what_precedes_it() -> None:
    async with world() as it:
        it.create(0, 5)
        log = it.source.logs[TopicPartition("orders", 0)]
        before = log.end
        log.store(batch(log.end, producer_id=MIRRORED_BACK))
        write(log, 3)
        copy = it.assign(0)
        await until(lambda: copy.stopped is not None)
        assert copy.stopped is not None
        assert copy.stopped.reason == StopReason.LOOP
        assert it.target.logs[TopicPartition("orders", 0)].end == before == copy.next_offset
        await until(lambda: used_bytes(it.lane) == 0)  # a fetch of what is behind may be on its way


@pytest.mark.parametrize("end", ["source", "target"])
async def test_a_leader_that_moves_is_followed(end: str) -> None:
    async with world() as it:
        it.create(0, 10)
        where = TopicPartition("orders", 0)
        it.assign(0)
        await until(lambda: it.is_copied(0))
        cluster: MemoryCluster = getattr(it, end)
        for node in (2, 3, 1):
            cluster.move(where, node)
            write(it.source.logs[where], 10)
            await until(lambda: it.is_copied(0))
        it.assert_identical(0)


@pytest.mark.parametrize("end", ["source", "target"])
async def test_a_broker_that_disappears_and_comes_back_loses_nothing(end: str) -> None:
    async with world() as it:
        it.create(0, 50)
        it.create(1, 50, source_node=2, target_node=2)
        copy = it.assign(0)
        it.assign(1)
        cluster: MemoryCluster = getattr(it, end)
        await until(lambda: copy.phase is Phase.STREAM)
        cluster.kill(1)
        write(it.source.logs[TopicPartition("orders", 0)], 10)
        write(it.source.logs[TopicPartition("orders", 1)], 10)
        await until(lambda: it.is_copied(1))
        assert not it.is_copied(0)
        cluster.dead.clear()
        await until(lambda: it.is_copied(0), 10)
        it.assert_identical(0)
        it.assert_identical(1)


async def test_appends_that_are_lost_after_they_were_executed_are_not_doubled() -> None:
    async with world() as it:
        it.create(0, 40)
        copy = it.assign(0)
        await until(lambda: copy.phase is Phase.STREAM)
        await until(lambda: it.is_copied(0))
        for _ in range(5):
            line = it.target.line(1)
            line.frozen = True
            write(it.source.logs[TopicPartition("orders", 0)], 5)
            await until(lambda line=line: not line.idle)  # type: ignore[misc]
            for request in line.lose_answers():
                for where, data in request.batches:
                    it.target.logs[where].append(memoryview(bytearray(data)))
            await until(lambda: it.is_copied(0))
        it.assert_identical(0)


async def test_after_a_leader_moved_nothing_goes_to_the_old_one() -> None:
    """The old leader's connection takes its time; when it stands at last, the partition is long elsewhere."""

    async with world() as it:
        it.create(0, 10)
        where = TopicPartition("orders", 0)
        it.target.line_open[1] = asyncio.Event()
        it.assign(0)
        await until(lambda: it.source.fetches > 0)
        await asyncio.sleep(0.05)
        it.target.move(where, 2)
        await it.target.refresh()
        await until(lambda: it.is_copied(0))
        frozen = it.target.line(2)
        frozen.frozen = True  # so that there is something to send when the old connection stands
        write(it.source.logs[where], 30)
        await until(lambda: not frozen.idle)
        it.target.line_open[1].set()
        await asyncio.sleep(0.1)
        frozen.thaw()
        await until(lambda: it.is_copied(0))
        it.assert_identical(0)
        assert {node for node, _ in it.target.appends} == {2}


@asynccontextmanager
async def half_copied() -> AsyncIterator[World]:
    """Another lane has copied 12 batches of partition 0; 5 more are at the source, and nobody is assigned."""
    async with world() as first:
        first.create(0, 12)
        first.assign(0)
        await until(lambda: first.is_copied(0))
    async with world() as it:
        it.create(0)
        it.source.logs, it.target.logs = first.source.logs, first.target.logs
        write(it.source.logs[place(0)], 5)
        yield it


def move_leader_at_first_read(it: World, *, of: MemoryCluster, loses: Callable[[MemoryLog], None]) -> None:
    """When a batch is read back `of` this cluster, the target has a new leader, whose log has lost something."""
    read = of.batch_at

    async def leader_moves(where: TopicPartition, offset: int) -> Batch | None:
        if it.target.leaders[place(0)].node == 1:
            loses(it.target.logs[place(0)])
            it.target.move(place(0), 2)
            await it.target.refresh()
        return await read(where, offset)

    of.batch_at = leader_moves  # type: ignore[method-assign]


async def test_a_leader_that_moves_during_a_resynchronisation_begins_it_anew() -> None:
    """An unclean election: the new leader has less, and nothing it remembers would refuse what comes too early."""

    def forget_the_end(log: MemoryLog) -> None:
        log.batches = log.batches[:5]
        log.end = log.batches[-1].header.next_offset

    async with half_copied() as it:
        it.target.logs[place(0)].producers.clear()
        move_leader_at_first_read(it, of=it.source, loses=forget_the_end)
        copy = it.assign(0)
        await until(lambda: it.is_copied(0) or copy.stopped is not None)
        assert copy.stopped is None
        it.assert_identical(0)


async def test_answers_of_two_leaders_are_no_reason_to_stop() -> None:
    """The end was the old leader's, the batch before it is asked of the new one, which has less."""

    async with half_copied() as it:
        move_leader_at_first_read(
            it, of=it.target, loses=lambda log: log.truncate(log.batches[4].header.next_offset)
        )
        copy = it.assign(0)
        await until(lambda: it.is_copied(0) or copy.stopped is not None)
        assert copy.stopped is None
        it.assert_identical(0)


async def test_a_topic_that_was_recreated_when_its_append_failed_stops_its_partition_and_no_other() -> None:
    async with world() as it:
        it.create(0, 5)
        other = TopicPartition("payments", 0)
        it.source.create(other)
        it.target.create(other)
        write(it.source.logs[other], 5)
        it.target.topic_ids["orders"] = str(UUID(int=1))

        def recreated(where: TopicPartition) -> int | None:
            if where.topic != "orders":
                return None
            it.target.topic_ids["orders"] = str(UUID(int=2))
            return ErrorCode.UNKNOWN_TOPIC_ID

        it.target.fault = recreated
        copy = it.assign(0)
        await until(lambda: copy.stopped is not None)
        it.lane.assign(spec_of(MirrorPartition("sf-to-nyc", "payments", "payments", 0)))
        await until(lambda: it.target.logs[other].end == it.source.logs[other].end)


# -- isolation (P7)


async def test_a_partition_whose_broker_hangs_does_not_stop_another() -> None:
    async with world() as it:
        it.create(0, 30)
        it.create(1, 30, target_node=2)
        it.target.frozen.add(1)
        it.assign(0)
        it.assign(1)
        await until(lambda: it.is_copied(1))
        assert not it.is_copied(0)
        it.target.thaw(1)
        await until(lambda: it.is_copied(0))
        it.assert_identical(0)


async def test_a_hanging_broker_does_not_take_all_of_the_lanes_memory() -> None:
    """However much waits for a broker that hangs, who writes to another one still gets memory to fetch with."""

    async with world(memory_bytes=1 << 18, partition_bytes=1 << 13) as it:
        for partition in range(6):
            it.create(partition)
            write(it.source.logs[TopicPartition("orders", partition)], 60, value_bytes=500)
            it.assign(partition)
        it.target.frozen.add(1)
        it.create(9, target_node=2)
        write(it.source.logs[TopicPartition("orders", 9)], 60, value_bytes=500)
        await asyncio.sleep(0.5)
        it.assign(9)
        await until(lambda: it.is_copied(9), 2)


async def test_partitions_that_cannot_settle_do_not_keep_others_from_starting() -> None:
    async with world() as it:
        stuck = range(QUESTIONS_AT_ONCE + 1)
        for partition in stuck:
            it.create(partition, 1)
            log = it.target.logs[TopicPartition("orders", partition)]
            log.store(batch(0))
            log.held_back = 1  # not on all replicas, and it stays so
            it.assign(partition)
        await asyncio.sleep(0.1)
        it.create(100, 10)
        it.assign(100)
        await until(lambda: it.is_copied(100), 2)


# -- memory


@pytest.mark.parametrize("memory_bytes", [1 << 15, 1 << 17])
async def test_no_more_is_held_than_the_lane_may(memory_bytes: int) -> None:
    async with world(memory_bytes=memory_bytes, partition_bytes=1 << 13) as it:
        for partition in range(8):
            it.create(partition, source_node=partition % 2)
            write(it.source.logs[TopicPartition("orders", partition)], 60, value_bytes=500)
            it.assign(partition)
        most = 0

        def copied() -> bool:
            nonlocal most
            most = max(most, used_bytes(it.lane))
            return all(it.is_copied(p) for p in range(8))

        await until(copied, 10)
        assert most <= memory_bytes
        assert it.source.largest_fetch_bytes <= memory_bytes // 2 or memory_bytes < 1 << 17


async def test_a_batch_larger_than_all_memory_still_passes() -> None:
    async with world(memory_bytes=1 << 12, partition_bytes=1 << 10) as it:
        it.create(0)
        log = it.source.logs[TopicPartition("orders", 0)]
        log.store(batch(0, value_bytes=1 << 14))
        write(log, 5)
        it.assign(0)
        await until(lambda: it.is_copied(0))
        it.assert_identical(0)


# -- the end


async def test_a_drain_leaves_nothing_in_flight_and_fetches_no_more() -> None:
    async with world() as it:
        for partition in range(4):
            it.create(partition, 200)
            it.assign(partition)
        await until(lambda: len(it.target.appends) > 10)
        await asyncio.wait_for(it.lane.drain(), BOUND_S)
        copies = it.lane.copies.values()
        assert all(copy.settled for copy in copies)
        for key, copy in it.lane.copies.items():
            assert copy.next_offset == it.target.logs[key.target].end
        sent = len(it.target.appends)
        await asyncio.sleep(0.1)
        assert len(it.target.appends) == sent
        assert used_bytes(it.lane) <= 1 << 16  # a fetch that waits at the source, no more


async def test_a_drain_waits_for_the_answers_that_are_due() -> None:
    async with world() as it:
        it.create(0, 5)
        line = it.target.line(1)
        line.frozen = True
        it.assign(0)
        await until(lambda: not line.idle)
        draining = asyncio.create_task(it.lane.drain())
        await asyncio.sleep(0.05)
        assert not draining.done()
        line.thaw()
        await asyncio.wait_for(draining, BOUND_S)
        assert it.lane.copies[mirror(0)].next_offset == it.target.logs[TopicPartition("orders", 0)].end > 0


async def test_a_revoked_partition_is_let_go_and_the_others_go_on() -> None:
    async with world() as it:
        it.create(0, 10)
        it.create(1, 10)
        it.assign(0)
        it.assign(1)
        await until(lambda: it.is_copied(0) and it.is_copied(1))
        assert await it.lane.revoke(mirror(0))
        assert await it.lane.revoke(mirror(0))
        assert set(it.lane.copies) == {mirror(1)}
        end = it.target.logs[TopicPartition("orders", 0)].end
        for partition in (0, 1):
            write(it.source.logs[TopicPartition("orders", partition)], 10)
        await until(lambda: it.is_copied(1))
        assert it.target.logs[TopicPartition("orders", 0)].end == end


async def test_a_partition_can_come_back_after_it_was_revoked() -> None:
    async with world() as it:
        it.create(0, 100)
        for _ in range(5):
            it.assign(0)
            await asyncio.sleep(0.002)
            await it.lane.revoke(mirror(0))
        it.assign(0)
        await until(lambda: it.is_copied(0))
        it.assert_identical(0)


async def test_assigning_twice_makes_no_second_copier() -> None:
    async with world() as it:
        it.create(0, 5)
        assert it.assign(0) is it.assign(0)


async def test_no_leader_anywhere_is_waited_for() -> None:
    async with world() as it:
        it.create(0, 5)
        it.source.believed, it.target.believed = {}, {}
        copy = it.assign(0)
        await until(lambda: it.is_copied(0))
        assert copy.stopped is None


async def test_retention_that_overtakes_a_running_copy_stops_it_with_the_lost_offsets() -> None:
    async with world() as it:
        it.create(0, 5)
        where = TopicPartition("orders", 0)
        copy = it.assign(0)
        await until(lambda: copy.next_offset == it.source.logs[where].end)
        position = copy.next_offset
        it.target.line(1).frozen = True
        log = it.source.logs[where]
        write(log, 10)
        log.start = log.end - 1
        log.batches = log.batches[-1:]
        it.target.line(1).thaw()
        await until(lambda: copy.stopped is not None or it.is_copied(0))
        assert copy.stopped is not None
        assert copy.stopped.reason in (StopReason.LOST, StopReason.HOLES)
        assert copy.next_offset == position


async def test_what_a_lane_cannot_recover_from_is_told() -> None:
    failures: list[BaseException] = []
    source, target = MemoryCluster(), MemoryCluster()
    lane = Lane(MEMORY_BYTES, failures.append)
    properties = ClientProperties(bootstrap_servers=(("memory", 1),))
    lane.link("sf-to-nyc", LaneLink(source, target, properties, properties, Lease.unlimited(), flight_s=30.0))
    source.create(TopicPartition("orders", 0))
    target.create(TopicPartition("orders", 0))
    del source.logs[TopicPartition("orders", 0)]  # a bug of ours, not a broker's answer
    lane.assign(spec_of(mirror(0)))
    await until(lambda: bool(failures))
    await lane.aclose()
    assert [type(failure) for failure in failures] == [KeyError]


async def test_a_stopped_partition_does_not_shorten_the_others_long_polls() -> None:
    """What has stopped is not asked for any more: an idle neighbour is polled as rarely as without it."""

    async with world() as it:
        for partition in range(2):
            it.create(partition, 5)
        bad = TopicPartition("orders", 1)
        it.target.fault = lambda where: ErrorCode.MESSAGE_TOO_LARGE if where == bad else None
        for partition in range(2):
            it.assign(partition)
        await until(lambda: it.is_copied(0) and it.lane.copies[mirror(1)].stopped is not None)
        await asyncio.sleep(0.2)
        before = it.source.fetches
        await asyncio.sleep(0.5)
        assert it.source.fetches - before <= 0.5 / 0.020 + 2  # fetch.max.wait.ms is 20 in this world


async def test_a_topic_that_stays_gone_stops_its_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resynchroniser, "MISSING_LIMIT_S", 0.3)

    async with world() as it:
        it.create(0, 3)
        gone = BrokerRefused("no such topic", code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        it.target.span = refuse_with(gone)  # type: ignore[method-assign]
        it.assign(0)
        copy = it.lane.copies[mirror(0)]
        await until(lambda: copy.stopped is not None)
        assert copy.stopped is not None
        assert copy.stopped.reason == StopReason.RECREATED
        assert "gone" in copy.stopped.message


def refuse_with(problem: BrokerRefused) -> Callable[..., Any]:
    async def refuse(*_: Any) -> Any:
        raise problem

    return refuse


@pytest.mark.parametrize("side", ["source", "target"])
async def test_a_recreated_topic_stops_an_idle_partition(side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_module, "LOOK_INTERVAL_S", 0.1)
    monkeypatch.setattr(lane_module, "ROUTE_INTERVAL_S", 0.05)

    async with world() as it:
        cluster = it.source if side == "source" else it.target
        cluster.topic_ids["orders"] = str(UUID(int=1))
        it.create(0, 3)
        it.assign(0)
        await until(lambda: it.is_copied(0))
        cluster.topic_ids["orders"] = str(UUID(int=2))
        copy = it.lane.copies[mirror(0)]
        await until(lambda: copy.stopped is not None)
        assert copy.stopped is not None
        assert copy.stopped.reason == StopReason.RECREATED
        assert side in copy.stopped.message
