"""How old the first records are that are not copied yet: one batch of each partition that lags. Reads only."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Mapping, Sequence

from heliograph.cluster.batches_at import batches_at
from heliograph.cluster.by_leader import PORTION, Problem, answered, led_together, look_twice
from heliograph.cluster.client import ClusterClient
from heliograph.model.partition import TopicPartition
from heliograph.wire.batch import MAGIC, BatchHeader

# One batch each of thousands of partitions may be gigabytes, and nobody waits for these to read a status.
LIMIT_S = 10.0


async def read_times(
    source: ClusterClient, next_offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Of those that have a record with a time there, and could be read soon enough."""
    times: dict[TopicPartition, int] = {}

    async def look(wheres: Collection[TopicPartition]) -> dict[TopicPartition, int | Problem | None]:
        return await batches_at(source, {where: next_offsets[where] for where in wheres}, _time_of)

    async def read(led: Sequence[TopicPartition]) -> None:
        for first in range(0, len(led), PORTION):
            found = answered(await look_twice(source, led[first : first + PORTION], look))
            times.update((where, ms) for where, ms in found.items() if ms is not None and ms >= 0)

    with contextlib.suppress(TimeoutError):  # of the others nothing is said
        async with asyncio.timeout(LIMIT_S):
            await asyncio.gather(*map(read, led_together(source, next_offsets)))
    return times


def _time_of(header: BatchHeader, _view: memoryview) -> int:
    """Messages of format 1 have one timestamp, and compressed ones their latest; those of format 0 have none: -1."""
    return header.base_timestamp if header.magic == MAGIC else header.max_timestamp
