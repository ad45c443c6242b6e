"""A partition that holds up a request for markers holds up nobody else (P7), and nothing is sent for a topic that is
another one by now (rule 8)."""

from __future__ import annotations

from collections.abc import Callable

from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.phases import Phase
from heliograph.model.errors import PartitionStop
from heliograph.model.partition import TopicPartition
from heliograph.model.states import StopReason
from tests.wire.batches import COMMIT

from .lane_world import World, place, until, world, write
from .test_gaps import ONE, Driver, end


def with_gap(it: World, partition: int, gap: int = 3) -> PartitionCopy:
    """A batch, a gap and a batch."""
    it.create(partition, 1)
    log = it.source.logs[place(partition)]
    for _ in range(gap):
        end(log, ONE, COMMIT)
    write(log, 1)
    return it.assign(partition)


def granted(driver: Driver, done: Callable[[], bool]) -> Callable[[], bool]:
    def check() -> bool:
        driver.grant()
        return done()

    return check


async def until_filling(driver: Driver, *copies: PartitionCopy) -> None:
    await until(lambda: all(copy.wants_attempt for copy in copies))
    await until(granted(driver, lambda: all(copy.phase is Phase.FILL for copy in copies)))


async def test_a_partition_that_is_gone_holds_up_nobody_who_shares_its_request() -> None:
    """Such a request may never be answered. What was written to the others is seen at their ends."""
    async with world() as it:
        copies, driver = [with_gap(it, 0), with_gap(it, 1)], Driver(it)
        it.target.marker_answer.clear()
        await until_filling(driver, *copies)
        it.target.leaders[place(1)] = it.target.leaders[place(1)]._replace(node=2)
        await until(granted(driver, lambda: it.is_copied(0)))
        assert it.lane._routes[copies[1].spec.partition].slow_until < 0  # nobody's followers are slow
        it.target.marker_answer.set()
        await until(granted(driver, lambda: it.is_copied(1)))
        for partition in (0, 1):
            assert it.target.logs[place(partition)].end == it.source.logs[place(partition)].end
            assert copies[partition].stopped is None


async def test_slow_followers_of_a_partition_hold_up_nobody_behind_it() -> None:
    async with world() as it:
        slow, driver = with_gap(it, 0), Driver(it)
        await until(lambda: it.target.logs[place(0)].end > 0 and slow.wants_attempt)
        it.target.marker_answer.clear()
        it.target.logs[place(0)].held_back = 3
        await until_filling(driver, slow)
        quick = with_gap(it, 1)
        await until(granted(driver, lambda: it.is_copied(1)))
        assert quick.stopped is None
        assert slow.phase is Phase.FILL
        route = it.lane._routes[slow.spec.partition]
        await until(lambda: route.slow_until > 0)
        it.target.logs[place(0)].held_back = 0
        await until(lambda: it.is_copied(0))


async def test_what_waits_for_a_request_is_not_sent_to_a_topic_that_was_recreated() -> None:
    async with world() as it:
        driver = Driver(it)
        first = with_gap(it, 0)
        it.target.marker_answer.clear()
        await until_filling(driver, first)
        second = with_gap(it, 1)
        sent: list[TopicPartition] = []
        honest = it.target.write_markers

        async def note(node, markers, permit):  # type: ignore[no-untyped-def]
            sent.extend(marker.where for marker in markers)
            return await honest(node, markers, permit)

        it.target.write_markers = note  # type: ignore[method-assign]
        await until_filling(driver, second)
        second.stop(PartitionStop(StopReason.RECREATED, "another topic", hint="look who did it"))
        it.target.marker_answer.set()
        await until(lambda: it.is_copied(0) and second.settled)
        assert place(1) not in sent
