"""Snappy as Java writes it (the framing of xerial's snappy-java), and raw snappy as librdkafka does.

    \\x82 S N A P P Y \\0   version (int32)   oldest compatible version (int32)
    chunk: size (int32), raw snappy of up to 32 KB of records; as many as it takes

Raw snappy begins with the size of its content, so all sizes are known before anything is allocated. No raw block
begins with the framing's magic: that would be a size and then a copy from before the block's beginning.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from cramjam import DecompressionError, snappy

from heliograph.model.errors import CorruptBatch, DecompressionLimit

_MAGIC = b"\x82SNAPPY\0"
_HEAD = _MAGIC + struct.pack(">ii", 1, 1)
_SIZE = struct.Struct(">i")
_BLOCK_BYTES = 32 << 10  # snappy-java's default; its readers take any


def compress(records: bytes | bytearray | memoryview) -> bytes:
    view = memoryview(records)
    out = bytearray(_HEAD)
    for at in range(0, len(view), _BLOCK_BYTES):
        block = bytes(snappy.compress_raw(view[at : at + _BLOCK_BYTES]))
        out += _SIZE.pack(len(block))
        out += block
    return bytes(out)


def decompress(compressed: memoryview, limit_bytes: int) -> memoryview:
    framed = bytes(compressed[: len(_MAGIC)]) == _MAGIC
    chunks = list(_chunks(compressed)) if framed else [compressed]
    try:
        sizes = [snappy.decompress_raw_len(chunk) for chunk in chunks]
        if sum(sizes) > limit_bytes:
            raise DecompressionLimit(
                f"a batch's snappy blocks hold {sum(sizes)} bytes of records, the limit is {limit_bytes}"
            )
        parts = [memoryview(snappy.decompress_raw(chunk)) for chunk in chunks]
    except DecompressionError as error:
        raise CorruptBatch(f"the batch's snappy blocks are corrupt: {error}") from None
    return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))


def _chunks(framed: memoryview) -> Iterator[memoryview]:
    at = len(_HEAD)
    end = len(framed)
    while at < end:
        if end - at < _SIZE.size:
            raise CorruptBatch("the batch's snappy framing is cut inside a chunk's size")
        (size,) = _SIZE.unpack_from(framed, at)
        at += _SIZE.size
        if not 0 < size <= end - at:
            raise CorruptBatch(f"a snappy chunk of {size} bytes does not fit the {end - at} that are left")
        yield framed[at : at + size]
        at += size
