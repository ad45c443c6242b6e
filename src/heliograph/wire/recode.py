"""A batch made into others that can be produced where it cannot: its records at the same offsets, from one offset on.

    one batch      0 1 2 · · 5 6 7 8 9 ·        · a record that compaction took
    from offset 1    ╰┬╯ ╰┬╯ ╰─┬─╯╰┬╯╰ hole
                   piece hole piece piece       no larger than the limit

Owns what becomes of the batch: *pieces*, dense batches with the same codec and CreateTime; *holes*, offsets without a
record; and a record that is too large for any batch. Must not know why it is done, nor where pieces go. A record keeps
its key, value and headers byte by byte, and its time, unless there are limits for that.

Work is done in portions, which are bounded in bytes and pieces, and end at a hole: a batch of many holes is not taken
apart in one go.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from heliograph.wire.batch import HEADER, BatchHeader, Codec, read_header
from heliograph.wire.batch_layout import CRC_AT, CRC_FROM, HEADER_BYTES, LENGTH_COUNTS_FROM, MAGIC
from heliograph.wire.codecs import compress
from heliograph.wire.decode import decode
from heliograph.wire.kernels import pieces as of
from heliograph.wire.kernels.loading import Kernels
from heliograph.wire.plain import not_its_records

# What one call writes before compression: others of the event loop wait meanwhile, some 10 ms.
PORTION_BYTES = {
    Codec.NONE: 8 << 20,
    Codec.LZ4: 4 << 20,
    Codec.SNAPPY: 4 << 20,
    Codec.ZSTD: 1 << 20,
    Codec.GZIP: 256 << 10,
}
MOST_PARTS = 64  # of one call
_GROWTH_BYTES = (
    17  # what a record can grow by: 9 bytes of timestamp delta, 4 of offset delta, 4 of its own size
)
_LESS = 0.9  # of what would fit if fewer records compressed as well as many: they do not quite
_NO_LIMIT = 2**62
_NOBODY = (-1, -1, -1)  # producer id, its epoch, sequence
_CRC = struct.Struct(">I")

_Octets = npt.NDArray[np.uint8]
_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The times that records may have; outside of that the nearest one is written. -1, no time, stays."""

    earliest: int = of.NO_EARLIEST
    latest: int = of.NO_LATEST


ANY_TIME = Times()


class Piece(NamedTuple):
    """A batch of the records [first_offset, next_offset), with its offset in its header and nobody for its producer.
    `clamped`: how many of them have another time than before."""

    first_offset: int
    next_offset: int
    batch: memoryview
    clamped: int


class Hole(NamedTuple):
    """Offsets without a record."""

    first_offset: int
    next_offset: int


class TooLarge(NamedTuple):
    """A record that makes a batch of `size_bytes` by itself, which is more than was allowed."""

    first_offset: int
    size_bytes: int
    key: bytes | None

    @property
    def next_offset(self) -> int:
        return self.first_offset + 1


Part = Piece | Hole | TooLarge


@dataclass(frozen=True, slots=True, kw_only=True)
class Recoded:
    """Parts in order, each going on where the last one ended; a hole, or a record that is too large, is the last.
    Without any, not even the first record fits the room that there is. `next_offset`: behind them; the batch may have
    more."""

    parts: tuple[Part, ...]
    next_offset: int


def recode(
    kernels: Kernels,
    plain: memoryview,
    codec: Codec,
    *,
    first_offset: int,
    limit_bytes: int,
    room_bytes: int = _NO_LIMIT,
    times: Times = ANY_TIME,
) -> Recoded:
    """Of one plain batch (wire/plain.py), from `first_offset` on, which is inside of it. No piece is larger than
    `limit_bytes`, and all together not larger than `room_bytes`. What is not what a producer writes is a
    `CorruptBatch`."""
    header = read_header(plain)
    knife = _Knife(kernels, header, plain, codec, times)
    at, end = first_offset, header.next_offset
    parts: list[Part] = []
    written_bytes = 0
    while at < end and len(parts) < MOST_PARTS and written_bytes < PORTION_BYTES[codec]:
        found = knife.next_piece(at, limit_bytes, room_bytes)
        if isinstance(found, _NoRoom):
            break
        hole_end = end if found is None else found.first_offset
        if found is None or hole_end > at:
            parts.append(Hole(at, hole_end))
            at = hole_end
            break
        parts.append(found)
        at = found.next_offset
        if isinstance(found, TooLarge):
            break
        room_bytes -= len(found.batch)
        written_bytes += knife.written_bytes
    return Recoded(parts=tuple(parts), next_offset=at)


class _NoRoom:
    """The next record is not too large, but there is no memory for it now."""


class _Knife:
    """Takes one piece after the other from a batch. `written_bytes`: of the last one, before compression."""

    def __init__(
        self, kernels: Kernels, header: BatchHeader, plain: memoryview, codec: Codec, times: Times
    ) -> None:
        self._kernels = kernels
        self._header = header
        self._source = np.frombuffer(plain, np.uint8)
        self._codec = codec
        self._times = times
        self._most_bytes = HEADER_BYTES + len(plain) + _GROWTH_BYTES * header.records_count
        self._target: _Octets = np.empty(0, np.uint8)
        self._progress: _Numbers = np.zeros(of.NUMBERS, np.int64)
        self._progress[of.READ_AT] = HEADER_BYTES
        self._progress[of.LAST_DELTA] = -1
        self.written_bytes = 0

    def next_piece(self, at: int, limit_bytes: int, room_bytes: int) -> Piece | TooLarge | _NoRoom | None:
        """From the first record at this offset or behind it; None: there is no other."""
        first_delta = at - self._header.base_offset
        fits_bytes = min(limit_bytes, room_bytes)
        buffer_bytes = min(
            fits_bytes if self._codec is Codec.NONE else PORTION_BYTES[self._codec], self._most_bytes
        )
        max_records = _NO_LIMIT
        while True:
            outcome, progress = self._carve(first_delta, max(buffer_bytes, HEADER_BYTES), max_records)
            records = int(progress[of.RECORDS])
            if not records and outcome == of.END:
                return None
            if not records:  # larger than the buffer: by itself, then
                buffer_bytes, max_records = self._most_bytes, 1
                continue
            batch = self._batch(progress)
            if len(batch) <= fits_bytes:
                self._progress = progress
                self.written_bytes = int(progress[of.WRITTEN_TO])
                return self._piece(progress, batch)
            if records == 1 and len(batch) > limit_bytes:
                return self._too_large(progress, len(batch))
            if records == 1:
                return _NoRoom()
            max_records = max(1, min(records - 1, int(records * fits_bytes / len(batch) * _LESS)))

    def _carve(self, first_delta: int, buffer_bytes: int, max_records: int) -> tuple[int, _Numbers]:
        if len(self._target) < buffer_bytes:
            self._target = np.empty(buffer_bytes, np.uint8)
        progress = self._progress.copy()
        progress[[of.RECORDS, of.LOWERED, of.RAISED]] = 0
        progress[of.WRITTEN_TO] = HEADER_BYTES
        times = self._times
        outcome = self._kernels.carve(
            self._source,
            self._target[:buffer_bytes],
            progress,
            first_delta,
            max_records,
            times.earliest,
            times.latest,
        )
        if outcome == of.BROKEN:
            raise not_its_records(self._header.base_offset)
        return outcome, progress

    def _batch(self, progress: _Numbers, codec: Codec | None = None) -> memoryview:
        codec = self._codec if codec is None else codec
        body = compress(codec, self._target[HEADER_BYTES : int(progress[of.WRITTEN_TO])].data)
        batch = memoryview(bytearray(HEADER_BYTES + len(body)))
        batch[HEADER_BYTES:] = body
        records = int(progress[of.RECORDS])
        HEADER.pack_into(
            batch,
            0,
            self._header.base_offset + int(progress[of.FIRST_DELTA]),
            len(batch) - LENGTH_COUNTS_FROM,
            self._header.leader_epoch,
            MAGIC,
            0,
            codec,
            records - 1,
            int(progress[of.BASE_TIMESTAMP]),
            int(progress[of.MAX_TIMESTAMP]),
            *_NOBODY,
            records,
        )
        _CRC.pack_into(batch, CRC_AT, crc32c(batch[CRC_FROM:]))
        return batch

    def _piece(self, progress: _Numbers, batch: memoryview) -> Piece:
        first_offset = self._header.base_offset + int(progress[of.FIRST_DELTA])
        clamped = int(progress[of.LOWERED] + progress[of.RAISED])
        return Piece(first_offset, first_offset + int(progress[of.RECORDS]), batch, clamped)

    def _too_large(self, progress: _Numbers, size_bytes: int) -> TooLarge:
        alone = decode(self._kernels, self._batch(progress, Codec.NONE))
        return TooLarge(alone.base_offset, size_bytes, alone.key_of(0))
