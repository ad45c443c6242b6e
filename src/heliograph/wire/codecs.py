"""The codecs of Kafka's record batches: compress records, and decompress them up to a limit.

Owns which library speaks which codec. Must not know what the bytes mean. Whatever the input is, no more than the limit
is allocated for what comes out: declared sizes are read first (snappy, lz4, zstd), and where there is none the output
goes into a buffer that is no larger than the limit.

    gzip    zlib of the standard library: it can stop at a number of bytes
    snappy  wire/xerial.py: Java's framing; librdkafka writes raw blocks
    lz4     wire/lz4_frames.py: independent blocks, as Java demands
    zstd    wire/zstd_frames.py: Java's frames do not say how large their content is
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from heliograph.model.errors import CorruptBatch, DecompressionLimit
from heliograph.wire import lz4_frames, xerial, zstd_frames
from heliograph.wire.batch import Codec

DEFAULT_LIMIT_BYTES = 128 << 20
_GZIP_WINDOW = 31  # 15 bits, with gzip's own header and trailer
_GZIP_LEVEL = 6  # Java's default, too

Bytes = bytes | bytearray | memoryview


def compress(codec: Codec, records: Bytes) -> bytes:
    return _COMPRESS[codec](records)


def decompress(codec: Codec, compressed: Bytes, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> memoryview:
    """The records of a batch. Input that the codec cannot have made is a `CorruptBatch`; more than `limit_bytes` of
    output is a `DecompressionLimit`."""
    records = _DECOMPRESS[codec](memoryview(compressed), limit_bytes)
    if len(records) > limit_bytes:
        raise DecompressionLimit(f"a batch holds more than {limit_bytes} bytes of records")
    return records


def _gzip_compress(records: Bytes) -> bytes:
    return zlib.compress(records, _GZIP_LEVEL, _GZIP_WINDOW)


def _gzip_decompress(compressed: memoryview, limit_bytes: int) -> memoryview:
    parts: list[bytes] = []
    size = 0
    rest: Bytes = compressed
    while len(rest) or not parts:  # a stream may have several members, as Java reads it
        member = zlib.decompressobj(_GZIP_WINDOW)
        try:
            # One byte more than the limit tells that there is more; 0 would mean no limit at all.
            part = member.decompress(rest, limit_bytes - size + 1)
        except zlib.error as error:
            raise CorruptBatch(f"the batch's gzip stream is corrupt: {error}") from None
        size += len(part)
        if size > limit_bytes:
            raise DecompressionLimit(f"a batch's gzip stream holds more than {limit_bytes} bytes of records")
        if not member.eof:
            raise CorruptBatch("the batch's gzip stream is cut")
        parts.append(part)
        rest = member.unused_data
    return memoryview(parts[0] if len(parts) == 1 else b"".join(parts))


_COMPRESS: dict[Codec, Callable[[Bytes], bytes]] = {
    Codec.NONE: bytes,
    Codec.GZIP: _gzip_compress,
    Codec.SNAPPY: xerial.compress,
    Codec.LZ4: lz4_frames.compress,
    Codec.ZSTD: zstd_frames.compress,
}
_DECOMPRESS: dict[Codec, Callable[[memoryview, int], memoryview]] = {
    Codec.NONE: lambda records, _limit_bytes: records,
    Codec.GZIP: _gzip_decompress,
    Codec.SNAPPY: xerial.decompress,
    Codec.LZ4: lz4_frames.decompress,
    Codec.ZSTD: zstd_frames.decompress,
}
