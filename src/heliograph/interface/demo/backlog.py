"""Writes the demo's backlog in seconds: a process of its own, run while Spark starts, which must not starve.

kafka-python's own builder makes one batch; in copies of it the records get their numbers and the batch its time and
checksum. So every record is another one, and none costs Python any time: 3 us each would be half of a core's time
until Spark is up.
"""

from __future__ import annotations

import asyncio
import json
import random
import struct
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np
from crc32c import crc32c
from kafka.record.default_records import DefaultRecordBatchBuilder

from heliograph.cluster.batch_target import AppendLine
from heliograph.interface.demo.plain_client import connected, refused
from heliograph.interface.demo.workload import HEADERS, PARTITIONS, value
from heliograph.wire.batch import MAGIC
from heliograph.wire.batch_layout import BASE_TIMESTAMP_AT, CRC_AT, CRC_FROM, MAX_TIMESTAMP_AT
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.produce import ProduceEntry

DIGITS = 10
BATCH_RECORDS = 1500  # 750 KB: brokers take 1 MB by default
HEADER_EVERY = 10  # records: headers cost the consumer that compares all of them 2 us each
IN_FLIGHT = 4  # requests, each with a batch for every partition
AGAIN_S = 0.05
LIMIT_S = 30.0
_PLACE = "#" * DIGITS
# A broker names itself the leader of a new partition a moment before it takes records for it.
_NOT_YET = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
)


class Template:
    """A batch of so many records, without their numbers."""

    def __init__(self, records: int, seed: int = 7) -> None:
        chance = random.Random(seed)
        builder = DefaultRecordBatchBuilder(MAGIC, 0, 0, -1, -1, -1, 1 << 20)
        for at in range(records):
            headers = list(HEADERS) if at % HEADER_EVERY == 0 else []
            taken = builder.append(at, at, _PLACE.encode(), value(_PLACE, chance), headers)
            assert taken is not None, f"{records} records do not fit a batch"
        self.records = records
        self._bytes = bytes(builder.build())
        self._places = np.array(list(_places(self._bytes)), np.int64).reshape(records, -1)

    def batch(self, first_number: int, now_ms: int) -> memoryview:
        """Records from `first_number` on, a millisecond apart, the last of them now."""
        batch = bytearray(self._bytes)
        numbers = first_number + np.arange(self.records, dtype=np.int64)
        powers = 10 ** np.arange(DIGITS - 1, -1, -1, dtype=np.int64)
        digits = (numbers[:, None] // powers % 10 + ord("0")).astype(np.uint8)
        octets = np.frombuffer(batch, np.uint8)
        octets[self._places[:, :, None] + np.arange(DIGITS)] = digits[:, None, :]
        struct.pack_into(">q", batch, BASE_TIMESTAMP_AT, now_ms - self.records + 1)
        struct.pack_into(">q", batch, MAX_TIMESTAMP_AT, now_ms)
        struct.pack_into(">I", batch, CRC_AT, crc32c(memoryview(batch)[CRC_FROM:]))
        return memoryview(batch)


def _places(batch: bytes) -> Iterator[int]:
    """Of each number: two of every record, in its key and in its value."""
    at = batch.find(_PLACE.encode())
    while at >= 0:
        yield at
        at = batch.find(_PLACE.encode(), at + DIGITS)


def shares(records: int) -> Iterator[list[tuple[str, int, int, int]]]:
    """What goes into each request: topic, partition, first number and count of a batch for each partition."""
    most = min(BATCH_RECORDS, -(-records // len(PARTITIONS)))
    first = 0
    while first < records:
        request = []
        for topic, partition in PARTITIONS:
            count = min(most, records - first)
            if count > 0:
                request.append((topic, partition, first, count))
            first += count
        yield request


def requests(records: int) -> Iterator[list[ProduceEntry]]:
    templates: dict[int, Template] = {}
    for request in shares(records):
        entries = []
        for topic, partition, first, count in request:
            if count not in templates:  # the last batch may be a smaller one
                templates[count] = Template(count)
            batch = templates[count].batch(first, time.time_ns() // 1_000_000)
            entries.append(ProduceEntry(topic, partition, batch))
        yield entries


async def write(bootstrap_servers: str, records: int) -> int:
    """The bytes written, as they are in the logs."""
    size_bytes = 0
    in_flight: deque[asyncio.Future[memoryview]] = deque()
    async with connected("sf", bootstrap_servers) as plain:
        for number, entries in enumerate(requests(records)):
            size_bytes += sum(entry.batch.nbytes for entry in entries)
            if number == 0:
                await _begin(plain.line, entries)
                continue
            in_flight.append(plain.line.send(entries, lambda: True))
            if len(in_flight) == IN_FLIGHT:
                refused(plain.line, await in_flight.popleft())
        while in_flight:
            refused(plain.line, await in_flight.popleft())
    return size_bytes


async def _begin(line: AppendLine, entries: Sequence[ProduceEntry]) -> None:
    """The first batch of each partition, sent until it is taken."""
    async with asyncio.timeout(LIMIT_S):
        while entries:
            again = refused(line, await line.send(entries, lambda: True), _NOT_YET)
            entries = [entry for entry in entries if entry[:2] in again]
            await asyncio.sleep(AGAIN_S if entries else 0)


def main(bootstrap_servers: str, records: str) -> None:
    began = time.monotonic()
    size_bytes = asyncio.run(write(bootstrap_servers, int(records)))
    print(json.dumps({"size_bytes": size_bytes, "seconds": round(time.monotonic() - began, 2)}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
