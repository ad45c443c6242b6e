"""What a log cleaner does to one broker's copy of a partition: records without a key go, from all segments but the one
that is written. Of records that have one none is compacted: a world's keys are all different.

A batch that loses records keeps its offsets, its producer and its sequence numbers; one that loses all of them goes,
unless it is its producer's last.
"""

from __future__ import annotations

from functools import partial

from heliograph.wire.batch import read_header
from heliograph.wire.codecs import compress
from tests.wire.batches import make_batch

from .record_reader import SeenRecord, records_of
from .replica import Replica, Stored


def is_filler(record: SeenRecord) -> bool:
    return record.key is None and record.value is None and not record.headers


def holds_filler(stored: Stored) -> bool:
    return not stored.header.is_control and any(map(is_filler, records_of(stored.data)))


def clean(replica: Replica) -> bool:
    """Whether something was removed."""
    before = replica.batches
    data = [stored for stored in before if not stored.header.is_control]
    kept = [
        _without_fillers(stored, last=stored is data[-1])
        if stored.header.next_offset <= replica.written_from and holds_filler(stored)
        else stored
        for stored in before
    ]
    replica.keep([stored for stored in kept if stored is not None])
    return replica.batches != before


def _without_fillers(stored: Stored, *, last: bool) -> Stored | None:
    header = stored.header
    left = [each for each in records_of(stored.data) if not is_filler(each)]
    if not left and not last:
        return None
    data = make_batch(
        [(each.key, each.value, [(_text(name), value) for name, value in each.headers]) for each in left],
        base_offset=header.base_offset,
        timestamp=header.base_timestamp,
        timestamps=[each.timestamp for each in left],
        offset_deltas=[each.offset_delta for each in left],
        last_offset_delta=header.last_offset_delta,
        codec=header.codec,
        compress=partial(compress, header.codec),
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        leader_epoch=header.leader_epoch,
    )
    return Stored(read_header(memoryview(data)), bytes(data))


def _text(name: bytes | None) -> str:
    assert name is not None
    return name.decode()
