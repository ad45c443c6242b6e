"""A small, slow, independent builder of the formats before Kafka 0.11: it shares no code with heliograph.wire."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Sequence

import cramjam

LEGACY_GZIP, LEGACY_SNAPPY, LEGACY_LZ4 = 1, 2, 3
LOG_APPEND_TIME = 0x08

# Key, value and time; the time of format 0 is not written.
Message = tuple[bytes | None, bytes | None, int]


def _sized(content: bytes | None) -> bytes:
    return struct.pack(">i", -1) if content is None else struct.pack(">i", len(content)) + content


def encode_message(message: Message, *, offset: int, magic: int, attributes: int = 0) -> bytes:
    key, value, timestamp = message
    body = struct.pack(">bb", magic, attributes)
    body += struct.pack(">q", timestamp) if magic == 1 else b""
    body += _sized(key) + _sized(value)
    checked = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", offset, len(checked)) + checked


def encode_set(messages: Sequence[Message], *, offsets: Sequence[int], magic: int) -> bytes:
    pairs = zip(messages, offsets, strict=True)
    return b"".join(encode_message(each, offset=offset, magic=magic) for each, offset in pairs)


def encode_wrapper(
    messages: Sequence[Message],
    *,
    offsets: Sequence[int],
    magic: int,
    codec: int,
    append_time: int | None = None,
) -> bytes:
    """With inner offsets as brokers write them: absolute in format 0, from the first one on in format 1."""
    inner = offsets if magic == 0 else [offset - offsets[0] for offset in offsets]
    payload = _compress(encode_set(messages, offsets=inner, magic=magic), codec, magic)
    stamped = append_time is not None
    timestamp = append_time if append_time is not None else max(each[2] for each in messages)
    attributes = codec | (LOG_APPEND_TIME if stamped else 0)
    return encode_message((None, payload, timestamp), offset=offsets[-1], magic=magic, attributes=attributes)


def _compress(payload: bytes, codec: int, magic: int) -> bytes:
    if codec == LEGACY_GZIP:
        return gzip.compress(payload, mtime=0)
    if codec == LEGACY_SNAPPY:
        blocks = [
            bytes(cramjam.snappy.compress_raw(payload[at : at + 1000])) for at in range(0, len(payload), 1000)
        ]
        framed = b"".join(struct.pack(">i", len(block)) + block for block in blocks)
        return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + framed
    compressor = cramjam.lz4.Compressor(block_linked=False)  # Java refuses linked blocks, and so do brokers
    compressor.compress(payload)
    frame = bytearray(compressor.finish())
    if magic == 0:
        frame[14 if frame[4] & 0x08 else 6] ^= 0x5A  # not the checksum that the format says
    return bytes(frame)
