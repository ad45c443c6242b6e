"""Who wrote the last data of a partition: the producer id of its last batch that is no marker. Asks the leader."""

from __future__ import annotations

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.log_reads import read_batches, read_span
from heliograph.model.errors import RequestFailed
from heliograph.model.partition import TopicPartition

WIDEN = 16  # how much further back each look goes than the one before: few rows of markers are longer than one batch
MOST_OFFSETS = 1 << 16  # of one look: markers have 78 bytes each
# Of markers at the end of the log. A loss that was accepted may have left millions: they are not read to the end.
MOST_MARKERS = 1 << 20


async def read_last_writer(client: ClusterClient, where: TopicPartition) -> int | None:
    """None: the log holds no data. `RequestFailed` where that cannot be said: somebody is writing, or there are more
    markers than are read."""
    span = await read_span(client, where)
    if span.high_watermark != span.end:
        raise RequestFailed(f"{where} is being written right now")
    at, width = span.end, 1
    while at > span.start:
        if span.end - at >= MOST_MARKERS:
            raise RequestFailed(f"the last {MOST_MARKERS:,} offsets of {where} hold no data")
        first = max(at - width, span.start)
        read = await read_batches(client, where, first, at)
        for header in reversed(read.headers):
            if not header.is_control:
                return header.producer_id
        at = min([first, *(header.base_offset for header in read.headers)])
        width = min(width * WIDEN, MOST_OFFSETS)
    return None
