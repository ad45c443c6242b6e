"""Small batches that wait for one target partition become one append (P1, P2, P4, P5). Never by waiting for more.

Owns the rule when merging pays, and the append that comes of it. Must not know the queue, phases or leases.
"""

from __future__ import annotations

from collections.abc import Iterable

from heliograph.copier.batches import Append
from heliograph.copier.budget import Hold
from heliograph.copier.spec import PRODUCER_EPOCH, CopySpec
from heliograph.model.errors import ProtocolError
from heliograph.model.position import SEQUENCES, Position
from heliograph.wire.batch import Codec
from heliograph.wire.batch_layout import DELETE_HORIZON
from heliograph.wire.kernels.loading import loaded
from heliograph.wire.merge import Merged, goes_on, merge
from heliograph.wire.runs import Run

# An append by itself costs the lane some 120 us, whatever is in it. To merge a batch of one record, 270 bytes, costs it
# 0.03 us uncompressed and 6 to 20 us with a codec (`python -m bench.kernels`): small ones pay with every codec. Up to
# which size they do is measured for none: larger ones have more to compress anew, so the bound is lower the slower a
# codec compresses.
WORTH_BYTES = {
    Codec.NONE: 16 << 10,
    Codec.LZ4: 8 << 10,
    Codec.SNAPPY: 8 << 10,
    Codec.ZSTD: 3 << 10,
    Codec.GZIP: 1 << 10,
}


def merging_pays(first: Run, second: Run | None) -> bool:
    """Whether the first of what waits should go as one batch with what is behind it."""
    if not first.mergeable:
        return False
    if first.header.attributes & DELETE_HORIZON:
        return True  # a cleaner's note about the source's log, not to be carried to another one
    goes_with_others = first.batches > 1 or (second is not None and goes_on(first, second))
    return goes_with_others and len(first.view) <= first.batches * WORTH_BYTES[first.header.codec]


def merge_at(start: Position, runs: Iterable[Run], spec: CopySpec, limit_bytes: int) -> Merged | None:
    """As many of them as fit, as one batch to be appended there; None if they can only go as they are."""
    kernels = loaded()
    if kernels is None:
        return None
    try:
        return merge(
            kernels,
            runs,
            limit_bytes=limit_bytes,
            # Some brokers refuse a batch in which sequences begin again at 0: it ends there.
            max_records=SEQUENCES - start.sequence,
            producer_id=spec.producer_id,
            producer_epoch=PRODUCER_EPOCH,
            base_sequence=start.sequence,
        )
    except ProtocolError:
        return None  # not what a producer writes: it goes as it is, and the target's broker judges it


def append_of(made: Merged, start: Position, *, perishable: bool, hold: Hold) -> Append:
    end = start.after(source_offsets=made.records, records=made.records)
    assert end.source == made.next_offset, (end, made.next_offset)
    return Append(start, end, made.records, perishable, made.max_timestamp, made.batch, hold, made.batches)
