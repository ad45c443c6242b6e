"""A record batch that holds one record, as bytes. Pure."""

from __future__ import annotations

import struct

from crc32c import crc32c

from heliograph.wire.batch import Codec
from heliograph.wire.codecs import compress
from heliograph.wire.writer import uvarint


def single_batch(value: bytes, *, timestamp_ms: int, offset: int = 0, codec: Codec = Codec.NONE) -> bytes:
    # attributes, timestamp delta, offset delta, a null key, the value's length as a zigzag varint, no headers
    record = b"\0\0\0\x01" + uvarint(2 * len(value)) + value + b"\0"
    records = compress(codec, uvarint(2 * len(record)) + record)
    checked = struct.pack(">hiqqqhii", codec, 0, timestamp_ms, timestamp_ms, -1, -1, -1, 1) + records
    return struct.pack(">qiibI", offset, len(checked) + 9, 0, 2, crc32c(checked)) + checked
