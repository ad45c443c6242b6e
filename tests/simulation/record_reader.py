"""The records of a raw batch, read slowly and by hand: what the judge compares. Shares no code with what merges and
compares batches in production, but for the codecs.

Must not know logs: an offset is a delta from the batch's first one.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

from heliograph.model.errors import ProtocolError
from heliograph.wire.batch import Codec
from heliograph.wire.codecs import decompress

_ATTRIBUTES, _ATTRIBUTES_AT = struct.Struct(">h"), 21
_BASE_TIMESTAMP, _BASE_TIMESTAMP_AT = struct.Struct(">q"), 27
_COUNT, _COUNT_AT = struct.Struct(">i"), 57
_RECORDS_AT = 61
_CODEC_BITS = 0x07
REMEMBERED = 1 << 13  # every batch is looked at again at each change of leader, and by the judge at the end


class Unreadable(Exception):
    """What a broker or a consumer could not read."""


class SeenRecord(NamedTuple):
    offset_delta: int
    timestamp: int
    attributes: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes | None, bytes | None], ...]


@lru_cache(maxsize=REMEMBERED)
def records_of(data: bytes) -> tuple[SeenRecord, ...]:
    """All of a whole batch, to its last byte."""
    (attributes,) = _ATTRIBUTES.unpack_from(data, _ATTRIBUTES_AT)
    (base_timestamp,) = _BASE_TIMESTAMP.unpack_from(data, _BASE_TIMESTAMP_AT)
    (count,) = _COUNT.unpack_from(data, _COUNT_AT)
    try:
        reader = _Reader(bytes(decompress(Codec(attributes & _CODEC_BITS), data[_RECORDS_AT:])))
        found = tuple(reader.record(base_timestamp) for _ in range(count))
    except (ProtocolError, IndexError, ValueError) as problem:
        raise Unreadable(str(problem)) from problem
    if not reader.is_at_end:
        raise Unreadable("bytes behind the last record")
    return found


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._data)

    def record(self, base_timestamp: int) -> SeenRecord:
        size_bytes = self._varint()
        end = self._at + size_bytes
        attributes = self._data[self._at]
        self._at += 1
        timestamp, offset_delta = base_timestamp + self._varint(), self._varint()
        key, value = self._sized(), self._sized()
        headers = tuple((self._sized(), self._sized()) for _ in range(self._varint()))
        if self._at != end:
            raise ValueError(f"a record of {size_bytes} bytes ends {self._at - end} bytes behind that")
        return SeenRecord(offset_delta, timestamp, attributes, key, value, headers)

    def _varint(self) -> int:
        """Signed, zigzag."""
        number = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
            shift += 7

    def _sized(self) -> bytes | None:
        size_bytes = self._varint()
        if size_bytes < 0:
            return None
        found = self._data[self._at : self._at + size_bytes]
        if len(found) < size_bytes:
            raise ValueError(f"{size_bytes} bytes of which there are {len(found)}")
        self._at += size_bytes
        return found
