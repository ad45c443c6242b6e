"""Every broker of one link's target frozen: the other link of the same lane copies as if nothing had happened (P7)."""

from __future__ import annotations

import asyncio
import logging
import statistics
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from heliograph.lab.cluster import LabCluster
from heliograph.model.link import Link
from heliograph.model.percentile import percentile
from heliograph.model.settings import Settings
from tests.support.latency_watch import LatencyWatch, Where
from tests.support.plain_driver import PlainDriver
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.faults, pytest.mark.slow]

PARTITIONS = 100
WATCHED = 20
ROUNDS = 2  # of a calm window and a frozen one, in turn: what else changes on the machine meets both alike
WINDOW_S = 15.0
ARRIVAL_S = 1.0  # how long what was sent last in a window is waited for
NEARLY_ALL = 0.99
# Warm: the lowest p99 of short windows is no longer beaten. Young brokers compile for a minute and more.
SHORT_S, UNBEATEN, BEATEN_BY = 3.0, 3, 0.9
WARM_LIMIT_S = 75.0
# 4 MB/s for the target that hangs: after 4 s it would have taken the lane's whole memory, if it were let.
SIZE_BYTES, LANE_MEMORY_BYTES = 4_000, 16 << 20
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
    calm: list[float] = []
    frozen: list[float] = []
    async with PlainDriver(settings) as driver:
        driver.lane(LANE_MEMORY_BYTES).assign(driver.specs)
        await driver.until(lambda: all(copy.durable is not None for copy in driver.copies), "a start")
        with (
            LatencyWatch(source, target, watched) as watch,
            LatencyWatch(source, source, also_written, SIZE_BYTES) as other,
        ):
            for _ in range(ROUNDS):
                await settled(watch, watched)
                calm.append(await p99_s(watch, watched, WINDOW_S, least=NEARLY_ALL))
                for broker in hung_target.brokers:
                    await asyncio.to_thread(broker.freeze)
                try:
                    frozen.append(await p99_s(watch, watched, WINDOW_S, least=NEARLY_ALL))
                finally:
                    for broker in hung_target.brokers:
                        broker.thaw()
                await caught_up(driver, other.sent)
    log.warning("p99 in ms: calm %s, with a hung target %s", in_ms(calm), in_ms(frozen))
    assert statistics.median(frozen) <= 2 * statistics.median(calm)


async def settled(watch: LatencyWatch, watched: Sequence[Where]) -> None:
    """When the p99 of short windows falls no more, or after WARM_LIMIT_S."""
    deadline = time.monotonic() + WARM_LIMIT_S
    seen_s = [await p99_s(watch, watched, SHORT_S)]
    lowest_s, unbeaten = seen_s[0], 0
    while unbeaten < UNBEATEN and time.monotonic() < deadline:
        seen_s.append(await p99_s(watch, watched, SHORT_S))
        unbeaten = 0 if seen_s[-1] < BEATEN_BY * lowest_s else unbeaten + 1
        lowest_s = min(lowest_s, seen_s[-1])
    log.warning("p99 in ms while it settled: %s", in_ms(seen_s))


async def p99_s(watch: LatencyWatch, watched: Sequence[Where], window_s: float, least: float = 0.0) -> float:
    """Of the records sent from now on for so long. At least that share has to arrive: what does not has no latency."""
    began_at, sent_before = time.monotonic(), watch.sent
    await asyncio.sleep(window_s)
    ended_at, sent = time.monotonic(), watch.sent - sent_before
    await asyncio.sleep(ARRIVAL_S)
    took_s = watch.took(watched, began_at, ended_at)
    # A tick lies on both sides of the moment: the records of one may be counted and not be in the window.
    assert len(took_s) >= least * sent - len(watched), f"{len(took_s)} of {sent} records arrived"
    return percentile(took_s, 99)


async def caught_up(driver: PlainDriver, records: int) -> None:
    """The link that hung has copied what was sent meanwhile."""
    copies = [copy for copy in driver.copies if copy.spec.partition.link == "hanging"]
    await driver.until(lambda: sum(copy.next_offset or 0 for copy in copies) >= records, "end of the backlog")


def in_ms(values_s: Sequence[float]) -> str:
    return ", ".join(f"{value_s * 1000:.1f}" for value_s in values_s)
