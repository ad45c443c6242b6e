"""What a consumer reads of a log, fetch by fetch, as Kafka's own does it: control batches are passed over, and, if it
reads committed records, those of transactions that the broker says were aborted.

Shares no code with production's filter.
"""

from __future__ import annotations

from heliograph.wire.error_codes import ErrorCode

from .answers import Fetched
from .control_batch import read_marker
from .model_broker import ModelPartition
from .record_reader import SeenRecord, records_of

FETCH_BYTES = 400  # a few batches: so that transactions begin in one answer and end in another


def view_of(partition: ModelPartition, *, committed: bool) -> dict[int, SeenRecord]:
    """Every record from the log's start on, by its offset."""
    node = partition.truth.leader
    seen: dict[int, SeenRecord] = {}
    offset = partition.leader_replica.start
    while True:
        fetched = partition.fetch(node, offset, max_bytes=FETCH_BYTES, committed=committed)
        assert fetched.error == ErrorCode.NONE, fetched
        if not fetched.batches:
            return seen
        seen |= {at: record for at, record in _records(fetched).items() if at >= offset}
        offset = fetched.batches[-1].header.next_offset


def _records(fetched: Fetched) -> dict[int, SeenRecord]:
    told = sorted(fetched.aborted, key=lambda each: each[1])
    aborting: set[int] = set()
    found: dict[int, SeenRecord] = {}
    for header, data in fetched.batches:
        while told and told[0][1] < header.next_offset:
            aborting.add(told.pop(0)[0])
        if header.is_control:
            if not read_marker(header, data).commits:
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            for record in records_of(data):
                at = header.base_offset + record.offset_delta
                timestamp = header.max_timestamp if header.is_log_append_time else record.timestamp
                found[at] = record._replace(offset_delta=0, timestamp=timestamp)
    return found
