"""When small batches that wait for one partition should go as one append. Pure."""

from __future__ import annotations

from heliograph.wire.batch import Codec
from heliograph.wire.merge import goes_on
from heliograph.wire.runs import PACKED_BYTES, PLAIN_BYTES, Run

# An append by itself costs the lane some 120 us, whatever is in it (NUMBA_DISABLE_JIT=1 script/bench --workloads tiny),
# and the broker more than that. Merging pays while to merge a batch costs less. Measured on JSON, by a batch's size as
# it came (`python -m bench.kernels`): uncompressed 4 us at 64 KB and 9 us at 128; snappy 17, lz4 21 us at 9 KB; zstd
# 59 us at 5 KB and 73 at 7; gzip 61 us at 1.6 KB and 114 at 2.9. What is larger than `PLAIN_BYTES` or `PACKED_BYTES` is
# not even looked at: few of those fit a batch.
WORTH_BYTES = {
    Codec.NONE: PLAIN_BYTES,
    Codec.LZ4: PACKED_BYTES,
    Codec.SNAPPY: PACKED_BYTES,
    Codec.ZSTD: 8 << 10,
    Codec.GZIP: 2 << 10,
}


def merging_pays(first: Run, second: Run | None) -> bool:
    """Whether the first of what waits should go as one batch with what is behind it."""
    if not is_worth_merging(first):
        return False
    return first.batches > 1 or (second is not None and is_worth_merging(second) and goes_on(first, second))


def is_worth_merging(run: Run) -> bool:
    """Whether its batches are small enough, on average."""
    return run.mergeable and len(run.view) <= run.batches * WORTH_BYTES[run.header.codec]
