"""Traps for a mirror that trusts compare-and-append too much: identical, or stopped before harm (P2, P3, P6)."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from heliograph.lab.cluster import LabCluster
from heliograph.model.position import SEQUENCES
from heliograph.model.settings import Settings
from heliograph.model.states import PartitionState, StopReason
from tests.simulation.real_partition import RealPartition
from tests.support.fault_scene import LEAST, MOST, PARTITIONS, SLOWLY, FaultScene, fill, is_gone
from tests.support.judge import assert_identical
from tests.support.log_reader import read_topic
from tests.support.moved_log import create_moved_topic
from tests.support.plain_driver import PlainDriver
from tests.support.plain_mirror import mirror_plainly, settings_for
from tests.support.records import Record
from tests.support.replicas import set_topic_config
from tests.support.steady_producer import SteadyProducer
from tests.support.topics import create_topic, delete_topic
from tests.support.workload import produce_records

pytestmark = [pytest.mark.kafka, pytest.mark.faults]

EXPIRY_CHECK_MS = 1_000
THREE_DAYS_MS = 3 * 86_400_000
GONE_LIMIT_S = 20.0
TAKE_OVER_LIMIT_S = 240.0  # a new driver lets a minute pass before it copies old records of its predecessor
SHORT = {"request.timeout.ms": "1000"}


@pytest.fixture(scope="module")
def source() -> Iterator[LabCluster]:
    with LabCluster.start(name="trap-source") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def target() -> Iterator[LabCluster]:
    """It looks every second for producers to forget."""
    interval = {"producer.id.expiration.check.interval.ms": str(EXPIRY_CHECK_MS)}
    with LabCluster.start(name="trap-target", properties=interval) as cluster:
        yield cluster


class Trap:
    """Both clusters and a topic of one name."""

    def __init__(self, source: LabCluster, target: LabCluster, topic: str) -> None:
        self.source, self.target, self.topic = source.bootstrap_servers, target.bootstrap_servers, topic

    def settings(self, **link: dict[str, str]) -> Settings:
        return settings_for(self.source, self.target, [self.topic], **link)

    def write(self, count: int, *, size_bytes: int = 10) -> None:
        now_ms = int(time.time() * 1000)
        records = [Record(value=b"x" * size_bytes, timestamp_ms=now_ms) for _ in range(count)]
        produce_records(self.source, self.topic, records)

    def target_values(self) -> list[bytes | None]:
        return [record.value for record in read_topic(self.target, self.topic)[0]]


@pytest.fixture
def trap(source: LabCluster, target: LabCluster, unique_topic: Callable[[str], str]) -> Trap:
    return Trap(source, target, unique_topic("trap"))


# -- records that make the broker forget us


def test_old_records_are_copied_once_through_killed_forsaken_and_changed_lanes(trap: Trap) -> None:
    create_topic(trap.source, trap.topic, PARTITIONS)
    backlog = 24_000
    fill(trap.source, trap.topic, backlog, age_ms=THREE_DAYS_MS)
    with SteadyProducer(trap.source, trap.topic, rate_per_s=50) as producer:
        asyncio.run(_copy_old_records(trap, backlog, producer))
    assert_identical(trap.source, trap.target, [trap.topic], records=backlog + producer.count)


async def _copy_old_records(trap: Trap, backlog: int, producer: SteadyProducer) -> None:
    async with PlainDriver(trap.settings(consumer=SLOWLY["consumer"], producer=SHORT)) as driver:
        first, second = driver.lane(), driver.lane()
        first.assign(driver.specs[: PARTITIONS // 2])
        second.assign(driver.specs[PARTITIONS // 2 :])

        async def amid() -> None:
            await driver.until(
                lambda: driver.copied >= (LEAST + 0.02) * (backlog + producer.count), "a start"
            )
            await driver.until(lambda: all(c.next_offset is not None for c in driver.copies), "positions")
            there = backlog + producer.count
            assert LEAST * there <= driver.copied <= MOST * there, f"{driver.copied} of {there}"

        for _ in range(2):
            await amid()
            first = await driver.replace(first)
            await amid()
            await driver.hand_over(second, first)
            second = driver.lane()
            await driver.hand_over(first, second)
            await amid()
            first = await driver.replace(first)
            await amid()
            second = await driver.forsake(second)
        await driver.until_caught_up(backlog + await asyncio.to_thread(producer.stop))


def test_the_target_does_forget_the_producer_of_old_records(trap: Trap) -> None:
    """Or the test above would show nothing."""
    create_topic(trap.source, trap.topic, 1)
    fill(trap.source, trap.topic, 100, partitions=1, age_ms=THREE_DAYS_MS)
    mirror_plainly(trap.settings())

    async def remembered() -> object:
        async with RealPartition(trap.target, trap.topic) as partition:
            return (await partition.look(partition.leader.node))[0]

    deadline = time.monotonic() + 10 * EXPIRY_CHECK_MS / 1000
    while asyncio.run(remembered()) != ():
        assert time.monotonic() < deadline
    assert_identical(trap.source, trap.target, [trap.topic], records=100)


@pytest.mark.slow
@pytest.mark.spark
def test_old_records_are_copied_once_through_a_killed_lane_and_a_killed_driver(
    source: LabCluster, target: LabCluster, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    scene = FaultScene(
        source.bootstrap_servers,
        target.bootstrap_servers,
        unique_topic("old"),
        tmp_path,
        backlog=30_000,
        rate_per_s=50,
        age_ms=THREE_DAYS_MS,
        link={"producer": {"request.timeout.ms": "5000"}},
    )
    with scene:
        scene.begin()
        scene.strike(lambda: _kill_a_lane(scene))
        scene.strike(lambda: _kill_the_driver(scene))
        scene.restart()
        scene.finish(timeout_s=TAKE_OVER_LIMIT_S)


def _kill_a_lane(scene: FaultScene) -> None:
    victim = scene.mirror.lane_pids()[0]
    os.kill(victim, signal.SIGKILL)
    scene.mirror.wait_until(lambda: is_gone(victim), "the worker's end")


def _kill_the_driver(scene: FaultScene) -> None:
    family = scene.mirror.family()
    os.kill(scene.mirror.pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(family, timeout=GONE_LIMIT_S)
    assert not alive, f"left behind by the killed driver: {alive}"


# -- what must stop the partition


def test_a_first_batch_that_is_too_large_stops_the_partition_before_the_ones_that_would_fit(
    trap: Trap,
) -> None:
    """The mirror plans with a limit that is lowered afterwards, so that the broker is the one to refuse."""
    create_topic(trap.source, trap.topic, 1)

    async def copy() -> None:
        async with PlainDriver(trap.settings()) as driver:
            driver.lane().assign(driver.specs)
            await driver.until(lambda: driver.copies[0].state is PartitionState.CAUGHT_UP, "an idle copy")
            await asyncio.to_thread(write_all)
            await driver.until(lambda: driver.copies[0].stopped is not None, "a stop")
            stop = driver.copies[0].stopped
            assert stop is not None
            assert stop.reason == StopReason.TOO_LARGE
            assert "offset 0" in stop.message
            await asyncio.sleep(1.0)  # whatever is wrongly on its way has time to arrive

    def write_all() -> None:
        set_topic_config(trap.target, trap.topic, "max.message.bytes", "20000")
        trap.write(1, size_bytes=50_000)
        for _ in range(5):
            trap.write(2)

    asyncio.run(copy())
    assert trap.target_values() == []


def test_a_record_that_somebody_wrote_while_the_mirror_was_down_stops_it_at_the_next_start(
    trap: Trap,
) -> None:
    """It stands exactly where the next record of the source belongs."""
    create_topic(trap.source, trap.topic, 1)
    trap.write(20)
    mirror_plainly(trap.settings())
    produce_records(trap.target, trap.topic, [Record(value=b"foreign", timestamp_ms=int(time.time() * 1000))])
    trap.write(30)
    before = trap.target_values()
    todo, copies = mirror_plainly(trap.settings())
    told: list[str] = [refusal.why.reason for refusal in todo.refusals]
    told += [copy.stopped.reason for copy in copies.values() if copy.stopped]
    assert told == [StopReason.FOREIGN]
    assert trap.target_values() == before
    assert before[20:] == [b"foreign"]


def test_a_target_recreated_amid_the_copy_gets_nothing(trap: Trap) -> None:
    create_topic(trap.source, trap.topic, PARTITIONS)
    count = 12_000
    fill(trap.source, trap.topic, count)

    def recreate() -> None:
        delete_topic(trap.target, trap.topic)
        create_topic(trap.target, trap.topic, PARTITIONS)

    async def copy() -> None:
        async with PlainDriver(trap.settings(consumer=SLOWLY["consumer"])) as driver:
            driver.lane().assign(driver.specs)
            await driver.until(lambda: driver.copied >= 0.25 * count, "a start")
            assert LEAST * count <= driver.copied <= MOST * count
            await asyncio.to_thread(recreate)
            await driver.until(lambda: all(copy.stopped for copy in driver.copies), "stops")
            assert {copy.stopped.reason for copy in driver.copies if copy.stopped} == {StopReason.RECREATED}

    asyncio.run(copy())
    assert read_topic(trap.target, trap.topic) == [[]] * PARTITIONS


# -- the last sequence


async def test_a_sequence_wraps_where_the_offsets_pass_two_to_the_31(
    source: LabCluster, target: LabCluster, trap: Trap
) -> None:
    start_offset, count = SEQUENCES - 1_003, 4_000
    create_moved_topic(source, trap.topic, start_offset)
    create_moved_topic(target, trap.topic, start_offset, compression_type="producer")
    fill(trap.source, trap.topic, count, partitions=1)

    async with PlainDriver(trap.settings(consumer=SLOWLY["consumer"])) as driver:
        lane = driver.lane()
        lane.assign(driver.specs)
        await driver.until(lambda: driver.copied > start_offset + count // 2, "half of it")
        await driver.replace(lane)  # on the other side of the wrap it must know where it stands, too
        await driver.until_caught_up(start_offset + count)

    assert_identical(trap.source, trap.target, [trap.topic], records=count)
