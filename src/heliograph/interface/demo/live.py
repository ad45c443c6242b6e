"""The demo's live traffic: writes records to the source one by one, and reads them on the target.

Both are in this one process, and so is the clock: a record holds the time of its sending, and arrives when the
reader has it in hand. Prints arrivals a few times a second, as a list of `Arrival`; at the end how many were sent.
Must not know what mirrors, nor what is made of the times (figures.py).
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping

from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from heliograph.cluster.fetches import fetch
from heliograph.cluster.log_ends import LogEnds
from heliograph.cluster.messages import raise_for
from heliograph.interface.demo.figures import Arrival
from heliograph.interface.demo.plain_client import PlainClient, connected, refused
from heliograph.interface.demo.workload import HEADERS, PARTITIONS
from heliograph.model.partition import TopicPartition
from heliograph.wire.batch import MAGIC, split_batches
from heliograph.wire.fetch import FetchedPartition, FetchWant
from heliograph.wire.fetch_request import FetchAsk
from heliograph.wire.produce import ProduceEntry

RECORDS_PER_S = 500
TELL_EVERY_S = 0.5
LONG_POLL_MS = 100
FETCH_BYTES = 1 << 20
LAST_ARRIVAL_S = 60.0  # a mirror that has not recovered by then will not
STAMP_DIGITS = 20
PADDING = b"." * 450


async def send(source: PlainClient, records: int) -> None:
    """Evenly over time and over the partitions, each record in a request of its own."""
    began = time.monotonic()
    due: deque[asyncio.Future[memoryview]] = deque()
    for number in range(records):
        await asyncio.sleep(max(began + number / RECORDS_PER_S - time.monotonic(), 0))
        topic, partition = PARTITIONS[number % len(PARTITIONS)]
        entry = ProduceEntry(topic, partition, memoryview(stamped_batch(time.monotonic_ns())))
        due.append(source.line.send([entry], lambda: True))
        while due and due[0].done():
            refused(source.line, due.popleft().result())
    while due:
        refused(source.line, await due.popleft())


def stamped_batch(now_ns: int) -> bytes:
    builder = DefaultRecordBatchBuilder(MAGIC, 0, 0, -1, -1, -1, 1 << 20)
    value = b"%0*d" % (STAMP_DIGITS, now_ns) + PADDING
    builder.append(0, time.time_ns() // 1_000_000, None, value, list(HEADERS))
    return bytes(builder.build())


class Reader:
    """Reads all partitions of the target from their ends on, by long polls."""

    def __init__(self, target: PlainClient, ends: Mapping[TopicPartition, int]) -> None:
        self._target = target
        self._next = dict(ends)

    async def read(self) -> list[Arrival]:
        """What has come; nothing, if nothing does for a moment."""
        wants = [FetchWant(*where, offset, FETCH_BYTES) for where, offset in self._next.items()]
        reply = await fetch(
            self._target.client,
            self._target.node,
            "tail",
            FetchAsk(wants, []),
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            max_wait_ms=LONG_POLL_MS,
            read_committed=False,
        )
        now_ns = time.monotonic_ns()
        raise_for(reply.error, "fetch of live records")
        return [arrival for each in reply.partitions for arrival in self._arrivals(each, now_ns)]

    def _arrivals(self, fetched: FetchedPartition, now_ns: int) -> Iterator[Arrival]:
        where = TopicPartition(fetched.topic, fetched.partition)
        raise_for(fetched.error, f"fetch of live records of {where}")
        for header, view in split_batches(fetched.records):
            for record in DefaultRecordBatch(bytes(view)):
                if record.offset >= self._next[where]:
                    yield Arrival(where.topic, where.partition, int(record.value[:STAMP_DIGITS]), now_ns)
            self._next[where] = header.next_offset


async def trickle(source_servers: str, target_servers: str, records: int) -> None:
    async with connected("sf", source_servers) as source, connected("nyc", target_servers) as target:
        ends = await LogEnds(target.client).read(
            target.node, [TopicPartition(*where) for where in PARTITIONS]
        )
        assert len(ends) == len(PARTITIONS), ends
        async with asyncio.TaskGroup() as group:
            group.create_task(send(source, records))
            await _tell(Reader(target, ends), records)


async def _tell(reader: Reader, records: int) -> None:
    arrived = 0
    untold: list[Arrival] = []
    told_at = heard_at = time.monotonic()
    while arrived < records or untold:
        came = await reader.read()
        now = time.monotonic()
        heard_at = now if came else heard_at
        arrived += len(came)
        untold += came
        if now - told_at >= TELL_EVERY_S or arrived >= records:
            print(json.dumps(untold), flush=True)
            untold, told_at = [], now
        if now - heard_at > LAST_ARRIVAL_S:
            raise TimeoutError(f"{arrived} of {records} live records have arrived on the target")


def main(source_servers: str, target_servers: str, seconds: str) -> None:
    if not sys.stdin.readline():  # the demo is gone, or was ended before the backlog was there
        return
    records = int(float(seconds) * RECORDS_PER_S)
    asyncio.run(trickle(source_servers, target_servers, records))
    print(json.dumps({"sent": records}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
