"""What a control batch says: the end of a transaction, or something that consumers pass over.

Owns the layout of a control record's key and value. Must not know where markers come from, nor what is done about them.
A control batch of a topic holds one record, a marker that ends its producer's transaction on the partition:

    key    version int16, type int16 (0 abort, 1 commit, others exist)
    value  version int16, coordinator epoch int32

Later versions of either only add to that. One without a record is what a cleaner left of a marker.
"""

from __future__ import annotations

import struct
from enum import Enum, auto
from typing import NamedTuple

from heliograph.model.errors import CorruptBatch
from heliograph.wire.batch import BatchHeader
from heliograph.wire.batch_layout import HEADER_BYTES
from heliograph.wire.codecs import decompress

_ABORT, _COMMIT = 0, 1
_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_VARINT_MAX_BYTES = 10  # timestamps are 64 bits wide
_NO_EPOCH = -1


class MarkerKind(Enum):
    ABORT = auto()
    COMMIT = auto()
    OTHER = auto()  # no end of a transaction


class ControlMarker(NamedTuple):
    kind: MarkerKind
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int  # -1: the batch has none


def read_marker(header: BatchHeader, view: memoryview) -> ControlMarker:
    """Of a whole control batch. Its checksum is the caller's business; a record that cannot be one is a
    `CorruptBatch` all the same."""
    assert header.is_control, header
    other = ControlMarker(MarkerKind.OTHER, header.producer_id, header.producer_epoch, _NO_EPOCH)
    if header.records_count != 1:
        return other
    records = decompress(header.codec, view[HEADER_BYTES : header.size_bytes])
    key, value = _Record(records, header.base_offset).key_and_value()
    if len(key) < _KEY.size:
        raise _not_a_marker(header.base_offset)
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise _not_a_marker(header.base_offset)
    if kind not in (_ABORT, _COMMIT):
        return other
    if len(value) < _VALUE.size:
        raise _not_a_marker(header.base_offset)
    version, coordinator_epoch = _VALUE.unpack_from(value)
    if version < 0:
        raise _not_a_marker(header.base_offset)
    return other._replace(
        kind=MarkerKind.ABORT if kind == _ABORT else MarkerKind.COMMIT, coordinator_epoch=coordinator_epoch
    )


class _Record:
    """The one record of a batch, read from front to back."""

    def __init__(self, records: memoryview, offset: int) -> None:
        self._records = records
        self._offset = offset
        self._at = 0

    def key_and_value(self) -> tuple[memoryview, memoryview]:
        """A null one is empty."""
        if self._varint() != len(self._records) - self._at:
            raise _not_a_marker(self._offset)
        self._take(1)  # attributes
        self._varint()  # timestamp delta
        self._varint()  # offset delta
        return self._sized(), self._sized()

    def _sized(self) -> memoryview:
        size_bytes = self._varint()
        return self._take(0 if size_bytes == -1 else size_bytes)

    def _take(self, size_bytes: int) -> memoryview:
        at = self._at
        if not 0 <= size_bytes <= len(self._records) - at:
            raise _not_a_marker(self._offset)
        self._at = at + size_bytes
        return self._records[at : self._at]

    def _varint(self) -> int:
        """Signed: zigzag."""
        number = 0
        for nth in range(_VARINT_MAX_BYTES):
            byte = self._take(1)[0]
            number |= (byte & 0x7F) << 7 * nth
            if byte < 0x80:
                return number >> 1 ^ -(number & 1)
        raise _not_a_marker(self._offset)


def _not_a_marker(offset: int) -> CorruptBatch:
    return CorruptBatch(f"the control batch at offset {offset} does not hold a control record")
