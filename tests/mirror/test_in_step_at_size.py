"""Hundreds of topics that come while a mirror runs: all are mirrored, and what is there already does not wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest

from heliograph.lab.cluster import LabCluster
from heliograph.model.states import PartitionState
from tests.support.judge import assert_identical
from tests.support.latency_watch import LatencyWatch, Where
from tests.support.plain_mirror import settings_for
from tests.support.plain_run import PlainRun, plain_run
from tests.support.records import Record
from tests.support.topics import create_topics
from tests.support.workload import ConfirmedProducer

pytestmark = [pytest.mark.kafka, pytest.mark.faults, pytest.mark.slow]

CREATED = 500
CREATED_LIMIT_S = 240.0
THERE, COMING, PARTITIONS = 100, 50, 4
MIRRORED_S = 10.0
MORE_PAUSE_S = 0.1  # than while as many topics come that do not match
WATCHED = 20
CALM_S = 10.0


def produce_one_each(bootstrap: str, topics: Sequence[str]) -> None:
    producer = ConfirmedProducer(bootstrap)
    for topic in topics:
        producer.send(topic, 0, Record(value=topic.encode(), timestamp_ms=int(time.time() * 1000)))
    producer.confirm()


def copied(run: PlainRun, topics: Sequence[str]) -> int:
    wanted = set(topics)
    return sum(
        row.partition.source_topic in wanted
        and row.state is PartitionState.CAUGHT_UP
        and bool(row.next_offset)
        for row in run.rows
    )


def all_copied(topics: Sequence[str]) -> Callable[[PlainRun], bool]:
    return lambda run: copied(run, topics) == len(topics)


async def test_topics_that_come_while_the_target_restarts_all_arrive(
    source_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    source, stem = source_cluster.bootstrap_servers, unique_topic("many")
    topics = [f"{stem}.{number}" for number in range(CREATED)]
    with LabCluster.start(name="restarting") as target_cluster:
        target = target_cluster.bootstrap_servers
        await asyncio.to_thread(create_topics, source, [f"{stem}.first"])
        async with plain_run(settings_for(source, target, [f"{stem}[.].*"])) as run:
            await run.caught_up()
            await asyncio.to_thread(create_topics, source, topics)
            await asyncio.to_thread(produce_one_each, source, topics)
            await run.until(lambda run: copied(run, topics) > 20)
            await asyncio.to_thread(target_cluster.kill)
            await asyncio.to_thread(target_cluster.come_up)
            await run.until(lambda run: copied(run, topics) == CREATED, CREATED_LIMIT_S)
            assert PartitionState.STOPPED not in run.states
        await asyncio.to_thread(lambda: assert_identical(source, target, topics, records=CREATED))


async def test_topics_that_come_are_mirrored_within_seconds_and_others_do_not_pause(
    source_cluster: LabCluster, target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    """As many topics come that do not match, and then those that do: what brokers do for them is the same."""
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    stem, others = unique_topic("flowing"), unique_topic("unmatched")
    there = [f"{stem}.{number}" for number in range(THERE)]
    await asyncio.to_thread(create_topics, source, there, PARTITIONS)
    watched = [(topic, 0) for topic in there[:WATCHED]]
    async with plain_run(settings_for(source, target, [f"{stem}[.].*"])) as run:
        await run.caught_up()
        with LatencyWatch(source, target, watched, size_bytes=5_000) as watch:
            await asyncio.sleep(CALM_S)  # so that brokers have compiled what they run
            pauses = []
            for name in (others, stem):
                began = time.monotonic()
                coming = [f"{name}.new-{number}" for number in range(COMING)]
                await asyncio.to_thread(create_topics, source, coming, PARTITIONS)
                await asyncio.to_thread(produce_one_each, source, coming)
                created = time.monotonic()
                if name == stem:
                    await run.until(all_copied(coming), MIRRORED_S + 5.0)
                    assert time.monotonic() - created < MIRRORED_S
                else:
                    await asyncio.sleep(MIRRORED_S)
                pauses.append(max(longest_pause(watch, where, began) for where in watched))
            calm_s, busy_s = pauses
        assert busy_s <= calm_s + MORE_PAUSE_S, (calm_s, busy_s)


def longest_pause(watch: LatencyWatch, where: Where, since: float) -> float:
    """Between arrivals of one partition, from then on."""
    times = sorted(
        each.arrived_at for each in list(watch.arrivals) if each.where == where and each.arrived_at >= since
    )
    return max((after - before for before, after in pairwise(times)), default=0.0)
