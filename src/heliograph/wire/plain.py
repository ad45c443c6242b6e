"""Batches without their compression, one behind the other: what kernels read.

A plain batch has its header, with the codec's bits cleared and the length set right, and its records as they are. It
is for kernels only: its checksum is that of the batch it was made of.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from heliograph.model.errors import CorruptBatch
from heliograph.wire.batch import MAGIC, BatchHeader, Codec, split_batches
from heliograph.wire.batch_layout import (
    ATTRIBUTES_AT,
    CODEC_BITS,
    HEADER_BYTES,
    LENGTH_AT,
    LENGTH_COUNTS_FROM,
)
from heliograph.wire.codecs import DEFAULT_LIMIT_BYTES, decompress

_LENGTH = struct.Struct(">i")
_ATTRIBUTES = struct.Struct(">h")


def plain_batches(views: Iterable[memoryview], *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> memoryview:
    """Of views of whole batches. What is plain already is not copied if it is all there is. No batch may hold more
    than `limit_bytes` of records."""
    parts: list[bytearray | memoryview] = []
    for view in views:
        at = 0
        for header, batch in split_batches(view):
            parts.extend(plain_parts(header, batch, limit_bytes))
            at += len(batch)
        if at != len(view):
            raise CorruptBatch(f"a batch is cut after {len(view) - at} bytes")
    return memoryview(parts[0]) if len(parts) == 1 else memoryview(b"".join(parts))


def plain_parts(
    header: BatchHeader, batch: memoryview, limit_bytes: int
) -> tuple[memoryview] | tuple[bytearray, memoryview]:
    if header.magic != MAGIC:
        raise CorruptBatch(f"the message at offset {header.base_offset} has format {header.magic}")
    codec = header.codec
    if codec is Codec.NONE:
        return (batch,)
    records = decompress(codec, batch[HEADER_BYTES:], limit_bytes=limit_bytes)
    head = bytearray(batch[:HEADER_BYTES])
    _LENGTH.pack_into(head, LENGTH_AT, HEADER_BYTES - LENGTH_COUNTS_FROM + len(records))
    _ATTRIBUTES.pack_into(head, ATTRIBUTES_AT, header.attributes & ~CODEC_BITS)
    return head, records


def not_its_records(offset: int) -> CorruptBatch:
    return CorruptBatch(f"the batch at offset {offset} does not hold the records that its header says")
