"""How fast a lane fills gaps: a long one, and those of many small transactions that it tails.

Owns what is produced and when the clock runs. The lane is the product's own, in this process; the transactions that it
tails come from another one, or they would take the lane's time.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from bench.clusters import ClusterPair, TopicEnds
from bench.lanes import BenchLane, job_of, running_lane
from bench.transactions import TransactionalProducer

LONG_GAP_RECORDS = 200_000
BEHIND_RECORDS = 1_000  # committed: a gap ends at a header that was seen
VALUE = b"x" * 100
COMMITS_PER_S = 200
WARM_UP_S = 5.0  # brokers that have just started compile what they run
TAIL_S = 15.0
TAIL_RECORDS = 5  # of a transaction
PRODUCERS = 8  # one alone does not commit as often
LOOK_S = 0.02
CATCHES_UP_S = 1.0  # who needs longer for what is left has fallen behind


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkRate:
    """`offsets` of one gap; the clock starts when the lane knows where the copy stands."""

    offsets: int
    seconds: float
    offsets_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TailLag:
    """Lags in transactions, by a look about every 20 ms. `left_s`: from the last commit until all is copied."""

    commits: int
    commits_per_s: float
    highest: float
    median: float
    left_s: float
    falls_behind: bool


class Look(NamedTuple):
    """Offsets before which all transactions are over, and those that are on the target."""

    at: float
    source: int
    target: int


async def measure_bulk(pair: ClusterPair) -> BulkRate:
    topic = "bulk"
    pair.source.create(topic, partitions=1)
    producer = TransactionalProducer(pair.source.bootstrap_servers)
    producer.write(topic, 0, (VALUE for _ in range(LONG_GAP_RECORDS)), abort=True)
    producer.write(topic, 0, (VALUE for _ in range(BEHIND_RECORDS)))
    gap = LONG_GAP_RECORDS + 1  # with its marker
    async with running_lane(job_of(pair, topic, partitions=1)) as lane:
        await lane.until(lambda: all(copy.durable is not None for copy in lane.copies), LOOK_S)
        began = time.monotonic()
        await lane.until(lambda: lane.next_offsets >= gap, LOOK_S)
        seconds = time.monotonic() - began
        await lane.until(lambda: lane.next_offsets >= gap + BEHIND_RECORDS + 1)
    return BulkRate(offsets=gap, seconds=seconds, offsets_per_s=gap / seconds)


async def measure_tail(pair: ClusterPair) -> TailLag:
    topic = "tail"
    pair.source.create(topic, partitions=1)
    TransactionalProducer(pair.source.bootstrap_servers).write(topic, 0, [VALUE])
    committing = multiprocessing.get_context("spawn").Process(
        target=commit_steadily, args=(pair.source.bootstrap_servers, topic)
    )
    async with running_lane(job_of(pair, topic, partitions=1)) as lane:
        await lane.until(lambda: lane.next_offsets == 2)  # it has filled its first gap
        committing.start()
        looks = [await _look(pair, topic, lane)]
        while committing.is_alive() or looks[-1].target < looks[-1].source:
            next_at = time.monotonic() + LOOK_S
            await lane.until(lambda: time.monotonic() >= next_at, LOOK_S)  # noqa: B023, it is over before the next one
            looks.append(await _look(pair, topic, lane))
    assert committing.exitcode == 0, "the producers of transactions failed"
    return tail_lag(looks)


async def _look(pair: ClusterPair, topic: str, lane: BenchLane) -> Look:
    source = await asyncio.to_thread(TopicEnds(pair.source, topic, 1, committed=True).read)
    return Look(time.monotonic(), source, lane.next_offsets)


def tail_lag(looks: Sequence[Look]) -> TailLag:
    """What was committed first is a warm-up. The last look shows that everything is copied."""
    begun = next(look for look in looks if look.source > looks[0].source)
    measured = [look for look in looks if look.at >= begun.at + WARM_UP_S]
    first, last = measured[0], next(look for look in measured if look.source == looks[-1].source)
    size = TAIL_RECORDS + 1  # with the marker
    lags = [max(look.source - look.target, 0) / size for look in measured]
    commits = (last.source - first.source) // size
    left_s = looks[-1].at - last.at
    return TailLag(
        commits=commits,
        commits_per_s=commits / (last.at - first.at),
        highest=max(lags),
        median=statistics.median(lags),
        left_s=left_s,
        falls_behind=left_s > CATCHES_UP_S,
    )


def commit_steadily(bootstrap_servers: str, topic: str) -> None:
    """A process of its own: several producers that commit in turn."""
    producers = [TransactionalProducer(bootstrap_servers) for _ in range(PRODUCERS)]
    began = time.monotonic()
    with ThreadPoolExecutor(PRODUCERS) as pool:
        for work in [pool.submit(_commit, producers[nth], topic, nth, began) for nth in range(PRODUCERS)]:
            work.result()


def _commit(producer: TransactionalProducer, topic: str, first: int, began: float) -> None:
    for number in range(first, int((WARM_UP_S + TAIL_S) * COMMITS_PER_S), PRODUCERS):
        time.sleep(max(began + number / COMMITS_PER_S - time.monotonic(), 0))
        producer.write(topic, 0, [VALUE] * TAIL_RECORDS)
