"""Every broker of one link's target frozen: the other link of the same lane copies as if nothing had happened (P7)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator

import pytest

from heliograph.lab.cluster import LabCluster
from heliograph.model.link import Link
from heliograph.model.settings import Settings
from tests.support.latency_watch import LatencyWatch, percentile
from tests.support.plain_driver import PlainDriver
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.faults, pytest.mark.slow]

PARTITIONS = 100
WATCHED = 20
WARM_S, WINDOW_S = 10.0, 25.0
REQUEST_MS = 5_000  # so that what hangs is asked again and again in the window

log = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def hung_target() -> Iterator[LabCluster]:
    with LabCluster.start(name="hung") as cluster:
        yield cluster


async def test_a_hung_target_does_not_slow_the_other_link(
    source_cluster: LabCluster,
    target_cluster: LabCluster,
    hung_target: LabCluster,
    unique_topic: Callable[[str], str],
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    healthy, hanging = unique_topic("healthy"), unique_topic("hanging")
    for topic in (healthy, hanging):
        create_topic(source, topic, PARTITIONS)
    settings = Settings(
        clusters={
            "sf": {"bootstrap.servers": source},
            "nyc": {"bootstrap.servers": target},
            "lax": {
                "bootstrap.servers": hung_target.bootstrap_servers,
                "request.timeout.ms": str(REQUEST_MS),
            },
        },
        links=(
            Link(name="healthy", source="sf", target="nyc", topics=(healthy,)),
            Link(name="hanging", source="sf", target="lax", topics=(hanging,)),
        ),
    )
    watched = [(healthy, number) for number in range(WATCHED)]
    also_written = [(hanging, number) for number in range(PARTITIONS)]
    async with PlainDriver(settings) as driver:
        driver.lane().assign(driver.specs)
        await driver.until(lambda: all(copy.durable is not None for copy in driver.copies), "a start")
        with LatencyWatch(source, target, watched) as watch, LatencyWatch(source, source, also_written):
            await asyncio.sleep(WARM_S)
            began_at = time.monotonic()
            await asyncio.sleep(WINDOW_S)
            calm = watch.took(watched, began_at, began_at + WINDOW_S)
            for broker in hung_target.brokers:
                await asyncio.to_thread(broker.freeze)
            frozen_at = time.monotonic()
            try:
                await asyncio.sleep(WINDOW_S)
                stormy = watch.took(watched, frozen_at, frozen_at + WINDOW_S - 1.0)
            finally:
                for broker in hung_target.brokers:
                    broker.thaw()
    before_s, after_s = percentile(calm, 0.99), percentile(stormy, 0.99)
    log.warning("p99 %.1f ms without, %.1f ms with a hung target", before_s * 1000, after_s * 1000)
    assert len(stormy) >= 0.8 * len(calm) * (WINDOW_S - 1.0) / WINDOW_S  # what never arrived has no latency
    assert after_s <= 2 * before_s
