"""The message formats before Kafka 0.11 (magic 0 and 1) as batches of today's.

Owns what their bytes mean. Must not know why they are read. A fetch answer holds either messages, one behind the other,
or wrappers: a message whose value is a compressed set of messages, and whose offset is that of the last of them.

    format 0   no timestamp (-1); the offsets in a wrapper are the log's; lz4 frames have a wrong header checksum
    format 1   a timestamp, each message's own or, with log append time, its wrapper's; the offsets in a wrapper count
               from the wrapper's first message
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

import numpy as np

from heliograph.model.errors import CorruptBatch
from heliograph.wire.batch import HEADER, BatchHeader, Codec
from heliograph.wire.batch_layout import CODEC_BITS, HEADER_BYTES, LENGTH_COUNTS_FROM, MAGIC
from heliograph.wire.codecs import DEFAULT_LIMIT_BYTES, decompress
from heliograph.wire.kernels import survey as of
from heliograph.wire.kernels.loading import Kernels
from heliograph.wire.lz4_frames import with_right_checksum
from heliograph.wire.plain import plain_batches

CODECS = frozenset({Codec.GZIP, Codec.SNAPPY, Codec.LZ4})
_CRC_AT, _CRC_FROM = 12, 16
_TIMESTAMP_AT = 18
_KEY_AT = {0: 18, 1: 26}
_FIELD = struct.Struct(">i")
_CRC = struct.Struct(">I")
_TIMESTAMP = struct.Struct(">q")
_NOBODY = (-1, -1, -1)  # producer id, its epoch, sequence
_MOST_OFFSETS = 2**31 - 1  # of one batch


class PlainBatch(NamedTuple):
    """A plain batch (wire/plain.py), and the codec that its records had."""

    plain: memoryview
    codec: Codec


def plain_batch(
    kernels: Kernels, header: BatchHeader, view: memoryview, *, limit_bytes: int = DEFAULT_LIMIT_BYTES
) -> PlainBatch:
    """Of one batch of whatever format; the checksum of today's is the caller's business."""
    if header.magic == MAGIC:
        return PlainBatch(plain_batches([view], limit_bytes=limit_bytes), header.codec)
    return to_batch(kernels, header, view, limit_bytes=limit_bytes)


def to_batch(
    kernels: Kernels, header: BatchHeader, view: memoryview, *, limit_bytes: int = DEFAULT_LIMIT_BYTES
) -> PlainBatch:
    """Of messages one behind the other, or of one wrapper; `header` as wire/runs.py has it. Checksums are verified."""
    assert header.magic != MAGIC, header
    if not header.attributes & CODEC_BITS:
        return PlainBatch(_converted(kernels, header, view, stamp=None), Codec.NONE)
    codec = header.codec
    if codec not in CODECS:
        raise _broken(header)
    _verify(header, view)
    compressed = _value(header, view)
    if codec is Codec.LZ4 and header.magic == 0:
        compressed = with_right_checksum(compressed)
    messages = decompress(codec, compressed, limit_bytes=limit_bytes)
    stamped = header.magic == 1 and header.is_log_append_time
    stamp = _TIMESTAMP.unpack_from(view, _TIMESTAMP_AT)[0] if stamped else None
    return PlainBatch(_converted(kernels, header, messages, stamp=stamp), codec)


def _verify(header: BatchHeader, view: memoryview) -> None:
    if zlib.crc32(view[_CRC_FROM : header.size_bytes]) != _CRC.unpack_from(view, _CRC_AT)[0]:
        raise CorruptBatch(f"the message at offset {header.base_offset} has a wrong checksum")


def _value(header: BatchHeader, view: memoryview) -> memoryview:
    """Of a wrapper, which has a key of no meaning, if any."""
    at = _KEY_AT[header.magic]
    for last in (False, True):
        if len(view) - at < _FIELD.size:
            raise _broken(header)
        size = _FIELD.unpack_from(view, at)[0]
        at += _FIELD.size
        if size > len(view) - at or size < (0 if last else -1):
            raise _broken(header)
        if last and at + size == len(view):
            return view[at:]
        at += max(size, 0)
    raise _broken(header)


def _converted(
    kernels: Kernels, header: BatchHeader, messages: memoryview, *, stamp: int | None
) -> memoryview:
    """`header`: of what the messages came in."""
    numbers = np.zeros(of.NUMBERS, np.int64)
    # A record is never larger than the message that it was: that has 26 or 34 bytes beside key and value.
    target = np.empty(HEADER_BYTES + len(messages), np.uint8)
    count = kernels.convert(
        np.frombuffer(messages, np.uint8), header.magic, target, stamp is not None, stamp or 0, numbers
    )
    if count < 1:
        raise _broken(header)
    first, last = int(numbers[of.FIRST_OFFSET]), int(numbers[of.LAST_OFFSET])
    behind = header.next_offset
    if header.magic == 1 and header.attributes & CODEC_BITS:
        first, last = first + behind - 1 - last, behind - 1
    if first < 0 or last >= behind or behind - first > _MOST_OFFSETS:
        raise _broken(header)
    plain = target[: int(numbers[of.WRITTEN_TO])].data
    HEADER.pack_into(
        plain,
        0,
        first,
        len(plain) - LENGTH_COUNTS_FROM,
        header.leader_epoch,
        MAGIC,
        0,
        0,
        behind - 1 - first,
        int(numbers[of.BASE_TIMESTAMP]),
        int(numbers[of.MAX_TIMESTAMP]),
        *_NOBODY,
        count,
    )
    return plain


def _broken(header: BatchHeader) -> CorruptBatch:
    return CorruptBatch(
        f"what is at offset {header.base_offset}, of message format {header.magic}, is not what a producer writes"
    )
