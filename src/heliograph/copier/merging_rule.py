"""When small batches that wait for one partition should go as one append. Pure."""

from __future__ import annotations

from heliograph.wire.batch import Codec
from heliograph.wire.batch_layout import DELETE_HORIZON
from heliograph.wire.merge import goes_on
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
