"""Batches that hold nothing but offsets: minimal records, to be deleted once they are there.

Owns their bytes, and how they are known again. Must not know when offsets are to be filled. A record has neither key,
value nor headers; in zstd, 100,000 of them take 0.6 bytes each. Their encoded form is made once; a batch of 100,000 is
then made in 10 us, a copy and a checksum of 60 KB, and known again in 1 ms (one core of an Intel Xeon,
`python -m bench.kernels`). What a record is made of: wire/kernels/density.py. Fillers among other records are made by
wire/dense.py, and known here, one by one.
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
from heliograph.wire.kernels.density import (
    BROKEN,
    FILLER_MARK,
    FIXED_BYTES,
    MOST_OFFSETS,
    THREE_BYTES_FROM,
    TWO_BYTES_FROM,
)
from heliograph.wire.kernels.loading import Kernels
from heliograph.wire.plain import not_its_records, plain_batches

MOST_RECORDS = MOST_OFFSETS
_NO_LIMIT = 2**63 - 1
_CRC = struct.Struct(">I")
_WIDTHS = ((1, 0, TWO_BYTES_FROM), (2, TWO_BYTES_FROM, THREE_BYTES_FROM), (3, THREE_BYTES_FROM, MOST_RECORDS))
_LAST_BATCHES = 4  # a partition's last filler is smaller than the others: so many sizes are kept ready


def filler_batch(
    count: int, *, producer_id: int, producer_epoch: int, base_sequence: int, timestamp_ms: int
) -> bytearray:
    """A batch of `count` records, ready to be produced."""
    assert 0 < count <= MOST_RECORDS, count
    body = compressed_fillers(count)
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
    wanted = encoded_fillers()[: fillers_bytes(count)]
    compressed = view[HEADER_BYTES : header.size_bytes]
    try:
        # As bytes: views are compared byte by byte, which takes longer than to decompress them.
        return bytes(decompress(Codec.ZSTD, compressed, limit_bytes=len(wanted))) == wanted
    except DecompressionLimit:
        return False


def last_filler_offset(
    kernels: Kernels,
    header: BatchHeader,
    view: memoryview,
    *,
    first_offset: int = 0,
    next_offset: int = _NO_LIMIT,
) -> int | None:
    """The highest offset of [first_offset, next_offset) at which this whole batch of magic 2, of any codec, holds a
    filler. Its checksum is the caller's business; what cannot be read is a `CorruptBatch`."""
    if header.is_control or not header.records_count:
        return None
    plain = np.frombuffer(plain_batches([view]), np.uint8)
    count, last = kernels.find_fillers(plain, first_offset, next_offset)
    if count == BROKEN:
        raise not_its_records(header.base_offset)
    return last if count else None


@lru_cache(maxsize=1 + _LAST_BATCHES)
def compressed_fillers(count: int) -> bytes:
    """By zstd, `count` records with offset deltas from 0 on."""
    return compress(Codec.ZSTD, encoded_fillers()[: fillers_bytes(count)])


def fillers_bytes(count: int) -> int:
    """Of the first `count` records."""
    return sum((FIXED_BYTES + width) * max(min(count, below) - least, 0) for width, least, below in _WIDTHS)


@lru_cache(maxsize=1)
def encoded_fillers() -> bytes:
    """MOST_RECORDS of them, encoded: any number of the first ones is a batch's."""
    return b"".join(_records_between(*each).tobytes() for each in _WIDTHS)


def _records_between(width: int, least: int, below: int) -> npt.NDArray[np.uint8]:
    """Those whose offset deltas, in [least, below), take `width` bytes; a row each."""
    zigzag = np.arange(least, below, dtype=np.int64) * 2
    rows = np.zeros((len(zigzag), FIXED_BYTES + width), np.uint8)
    rows[:, 0] = 2 * (FIXED_BYTES - 1 + width)  # the size of what follows it
    rows[:, 1] = FILLER_MARK
    for nth in range(width):
        more = 0x80 if nth < width - 1 else 0
        rows[:, 3 + nth] = zigzag >> 7 * nth & 0x7F | more
    rows[:, 3 + width : 5 + width] = 1  # -1: no key, no value
    return rows
