"""Batches that hold nothing but offsets: minimal records, to be deleted once they are there.

Owns their bytes, and how they are known again. Must not know when offsets are to be filled. A record has neither key,
value nor headers; in zstd, 100,000 of them take 0.6 bytes each. Their encoded form is made once; a batch of 100,000 is
then made in 10 us, a copy and a checksum of 60 KB, and known again in 1 ms (one core of an Intel Xeon,
`python -m bench.kernels`).

    size | attributes 0x48 | timestamp delta 0 | offset delta | key -1 | value -1 | headers 0      all zigzag varints
"""

from __future__ import annotations

import struct
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from heliograph.model.errors import DecompressionLimit
from heliograph.wire.batch import HEADER, BatchHeader, Codec
from heliograph.wire.batch_layout import CRC_AT, CRC_FROM, HEADER_BYTES, LENGTH_COUNTS_FROM, MAGIC
from heliograph.wire.codecs import compress, decompress

MOST_RECORDS = 100_000  # a broker makes an object of each while it checks a batch

# The attributes of a record, which the protocol has no use for and no producer sets: a batch of records that somebody
# wrote without key and value is not taken for a filler.
_MARK = 0x48
_CRC = struct.Struct(">I")
# How many bytes the offset deltas from one number to another take: zigzag leaves 6 bits of the first for the number.
_WIDTHS = ((1, 0, 1 << 6), (2, 1 << 6, 1 << 13), (3, 1 << 13, MOST_RECORDS))
_FIXED_BYTES = 6  # of a record: all but its offset delta
_LAST_BATCHES = 4  # a partition's last filler is smaller than the others: so many sizes are kept ready


def filler_batch(
    count: int, *, producer_id: int, producer_epoch: int, base_sequence: int, timestamp_ms: int
) -> bytearray:
    """A batch of `count` records, ready to be produced."""
    assert 0 < count <= MOST_RECORDS, count
    body = _compressed(count)
    batch = bytearray(HEADER_BYTES + len(body))
    HEADER.pack_into(
        batch,
        0,
        0,  # base offset: the broker demands 0
        len(batch) - LENGTH_COUNTS_FROM,
        -1,  # leader epoch: the broker's to set
        MAGIC,
        0,
        Codec.ZSTD,
        count - 1,
        timestamp_ms,
        timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    batch[HEADER_BYTES:] = body
    _CRC.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[CRC_FROM:]))
    return batch


def is_filler(header: BatchHeader, view: memoryview) -> bool:
    """Whether the whole batch holds exactly such records as `filler_batch` makes, whoever compressed them. Its checksum
    is the caller's business; bytes that zstd cannot have made are a `CorruptBatch`."""
    count = header.records_count
    if (
        header.magic != MAGIC
        or header.attributes != Codec.ZSTD
        or not 0 < count <= MOST_RECORDS
        or not header.is_dense
    ):
        return False
    wanted = _records()[: _size_bytes(count)]
    compressed = view[HEADER_BYTES : header.size_bytes]
    try:
        # As bytes: views are compared byte by byte, which takes longer than to decompress them.
        return bytes(decompress(Codec.ZSTD, compressed, limit_bytes=len(wanted))) == wanted
    except DecompressionLimit:
        return False


@lru_cache(maxsize=1 + _LAST_BATCHES)
def _compressed(count: int) -> bytes:
    return compress(Codec.ZSTD, _records()[: _size_bytes(count)])


def _size_bytes(count: int) -> int:
    """Of the first `count` records."""
    return sum((_FIXED_BYTES + width) * max(min(count, below) - least, 0) for width, least, below in _WIDTHS)


@lru_cache(maxsize=1)
def _records() -> bytes:
    """MOST_RECORDS of them, encoded: any number of the first ones is a batch's."""
    return b"".join(_records_between(*each).tobytes() for each in _WIDTHS)


def _records_between(width: int, least: int, below: int) -> npt.NDArray[np.uint8]:
    """Those whose offset deltas, in [least, below), take `width` bytes; a row each."""
    zigzag = np.arange(least, below, dtype=np.int64) * 2
    rows = np.zeros((len(zigzag), _FIXED_BYTES + width), np.uint8)
    rows[:, 0] = 2 * (_FIXED_BYTES - 1 + width)  # the size of what follows it
    rows[:, 1] = _MARK
    for nth in range(width):
        more = 0x80 if nth < width - 1 else 0
        rows[:, 3 + nth] = zigzag >> 7 * nth & 0x7F | more
    rows[:, 3 + width : 5 + width] = 1  # -1: no key, no value
    return rows
