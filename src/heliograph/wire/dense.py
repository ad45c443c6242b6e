"""Batches without holes: the source's records at their offsets, fillers (wire/filler.py) at all others.

    source     │ 3 · · 6 │ · · · │ marker │ 11 12 │        · an offset that compaction left without a record
    one batch    3 f f 6   f f f   f        11 12          f a filler: no key, no value, a mark

Owns what such a batch looks like. Must not know why offsets lack a record, nor what becomes of fillers. Records keep
key, value, headers and time (P5): the base timestamp is the fillers' time, and older records have negative deltas. The
batch has CreateTime, whatever the source's batches had.

A batch of 100,000 offsets, one in 100 with a record of 200 bytes, is written and compressed by zstd in 4 ms; to
decompress the source's batches takes 16 ms more where each record has one of its own. That makes 5 million offsets a
second (one core of a busy AMD EPYC, `python -m bench.kernels`).
"""

from __future__ import annotations

import struct
from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from heliograph.model.errors import CorruptBatch
from heliograph.wire.batch import HEADER, BatchHeader, Codec, verify_crc
from heliograph.wire.batch_layout import CRC_AT, CRC_FROM, HEADER_BYTES, LENGTH_COUNTS_FROM, MAGIC
from heliograph.wire.codecs import DEFAULT_LIMIT_BYTES, compress
from heliograph.wire.decode import decode
from heliograph.wire.filler import compressed_fillers, encoded_fillers, fillers_bytes
from heliograph.wire.kernels import density as of
from heliograph.wire.kernels.density import MOST_OFFSETS as MOST_OFFSETS
from heliograph.wire.kernels.loading import Kernels
from heliograph.wire.plain import plain_parts
from heliograph.wire.recode import TooLarge

# For one batch, which is made in one go, on the event loop, from memory that nobody accounts for: so many bytes of
# records before compression, read and written. 100,000 fillers have 0.9 MB. Others wait for 20 ms at the most, for gzip
# 40 ms (`python -m bench.kernels`).
PLAIN_BYTES = {
    Codec.NONE: 8 << 20,
    Codec.LZ4: 4 << 20,
    Codec.SNAPPY: 4 << 20,
    Codec.ZSTD: 2 << 20,
    Codec.GZIP: 1 << 20,
}
# What a record can grow by: 9 bytes of timestamp delta, 4 of offset delta, 4 of its own size.
_GROWTH_BYTES = 17
_LESS = 0.9  # of what would fit if fewer records compressed as well as many: they do not quite
_CRC = struct.Struct(">I")

Octets = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dense:
    """A batch ready to be produced. It holds all offsets from the first one asked for up to `next_offset`; `records` of
    them are the source's, the others fillers."""

    batch: memoryview
    next_offset: int
    records: int
    max_timestamp: int


def dense_batch(
    kernels: Kernels,
    batches: Iterable[tuple[BatchHeader, memoryview]],
    *,
    first_offset: int,
    next_offset: int,
    filler_time_ms: int,
    codec: Codec,
    limit_bytes: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    holes: Container[int] = (),
    inflate_bytes: int = DEFAULT_LIMIT_BYTES,
) -> Dense | TooLarge:
    """Of the source's batches of magic 2, in order and of any codec, all that hold offsets in [first_offset,
    next_offset). Those that begin at an offset in `holes`, and all control batches, hold nothing to copy.

    The range is cut to what fits `limit_bytes`, and to what is worth doing in one go (PLAIN_BYTES); `TooLarge`: not
    even the first offset fits. Checksums are verified. A batch that cannot be read is a `CorruptBatch`, one that holds
    more than `inflate_bytes` a `DecompressionLimit`.
    """
    assert first_offset < next_offset <= first_offset + MOST_OFFSETS, (first_offset, next_offset)
    portion = _gather(
        batches,
        first_offset,
        next_offset,
        holes,
        most_bytes=min(PLAIN_BYTES[codec], limit_bytes) if codec is Codec.NONE else PLAIN_BYTES[codec],
        inflate_bytes=inflate_bytes,
    )
    batch, offsets, records, max_timestamp = _write(kernels, portion, filler_time_ms, codec, limit_bytes)
    HEADER.pack_into(
        batch,
        0,
        0,  # base offset: the broker demands 0
        len(batch) - LENGTH_COUNTS_FROM,
        -1,  # leader epoch: the broker's to set
        MAGIC,
        0,
        codec,
        offsets - 1,
        filler_time_ms,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        offsets,
    )
    _CRC.pack_into(batch, CRC_AT, crc32c(batch[CRC_FROM:]))
    if len(batch) > limit_bytes:
        return TooLarge(first_offset, len(batch), decode(kernels, batch).key_of(0))
    return Dense(
        batch=batch, next_offset=first_offset + offsets, records=records, max_timestamp=max_timestamp
    )


class _Portion(NamedTuple):
    """A range of offsets, and the plain batches that hold its records. `most_bytes`: what they can take in a batch."""

    first_offset: int
    next_offset: int
    plain: Octets
    most_bytes: int


def _gather(
    batches: Iterable[tuple[BatchHeader, memoryview]],
    first_offset: int,
    next_offset: int,
    holes: Container[int],
    *,
    most_bytes: int,
    inflate_bytes: int,
) -> _Portion:
    """Up to `most_bytes` of batches, and the first in any case."""
    parts: list[bytearray | memoryview] = []
    size = records = 0
    behind = -1
    for header, view in batches:
        if header.base_offset < behind:
            raise CorruptBatch(
                f"the batch at offset {header.base_offset} begins inside of the one that ends at {behind}"
            )
        behind = header.next_offset
        if header.next_offset <= first_offset or header.is_control or header.base_offset in holes:
            continue
        if header.base_offset >= next_offset:
            break
        if parts and size >= most_bytes:
            next_offset = header.base_offset
            break
        verify_crc(header, view)
        plain = plain_parts(header, view, inflate_bytes)
        size += sum(map(len, plain))
        records += header.records_count
        parts.extend(plain)
    octets = np.frombuffer(parts[0] if len(parts) == 1 else b"".join(parts), np.uint8)
    # There are no more records than bytes, whatever headers say.
    grown = size + _GROWTH_BYTES * min(records, size)
    return _Portion(first_offset, next_offset, octets, fillers_bytes(next_offset - first_offset) + grown)


def _write(
    kernels: Kernels, portion: _Portion, filler_time_ms: int, codec: Codec, limit_bytes: int
) -> tuple[memoryview, int, int, int]:
    """A batch without its header; and how many offsets it holds, how many records, and the largest time. Larger than
    the limit it is of one offset."""
    fillers = np.frombuffer(encoded_fillers(), np.uint8)
    numbers = np.zeros(of.NUMBERS, np.int64)
    first, stop = portion.first_offset, portion.next_offset
    fits = limit_bytes if codec is Codec.NONE else PLAIN_BYTES[codec]
    room = HEADER_BYTES + max(0, min(fits - HEADER_BYTES, portion.most_bytes))
    target = np.empty(room, np.uint8)
    while True:
        ended = kernels.densify(portion.plain, fillers, target[:room], numbers, first, stop, filler_time_ms)
        if ended == of.BROKEN:
            raise CorruptBatch(f"a batch in [{first}, {stop}) does not hold the records that its header says")
        offsets, records, written_to, max_timestamp = numbers.tolist()
        if not offsets:  # larger than the room: by itself, then
            stop, room = first + 1, HEADER_BYTES + len(portion.plain) + _GROWTH_BYTES
            target = np.empty(room, np.uint8)
            continue
        if (
            codec is Codec.ZSTD and not records
        ):  # nearly all of a log of which little is left: compressed once
            body = compressed_fillers(offsets)
        else:
            body = compress(codec, target[HEADER_BYTES:written_to].data)
        size = HEADER_BYTES + len(body)
        if size <= limit_bytes or offsets == 1:
            batch = memoryview(bytearray(size))
            batch[HEADER_BYTES:] = body
            return batch, offsets, records, max_timestamp
        # By bytes and not by offsets: fillers compress to nearly nothing, and records may all be in one place.
        room = max(HEADER_BYTES, int(written_to * limit_bytes / size * _LESS))
