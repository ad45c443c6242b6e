"""The batch that ends a transaction in a log, built and read by hand.

Owns its bytes, as brokers write them: one record, whose key says commit or abort and whose value says which
coordinator epoch asked for it. Must not know what follows from one.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from heliograph.wire.batch import BatchHeader
from tests.wire.batches import make_batch

from .record_reader import records_of

TRANSACTIONAL, CONTROL = 0x10, 0x20  # bits of a batch's attributes
NO_SEQUENCE = -1
_KEY = struct.Struct(">hh")  # version, what it says
_VALUE = struct.Struct(">hi")  # version, coordinator epoch
_VERSION = 0
_ABORT, _COMMIT = 0, 1


class EndMarker(NamedTuple):
    """What a broker is asked to write: the end of this producer's transaction, whether or not it has one."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commits: bool = False


def marker_batch(marker: EndMarker, timestamp: int) -> bytearray:
    key = _KEY.pack(_VERSION, _COMMIT if marker.commits else _ABORT)
    return make_batch(
        [(key, _VALUE.pack(_VERSION, marker.coordinator_epoch), ())],
        timestamp=timestamp,
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        base_sequence=NO_SEQUENCE,
    )


def read_marker(header: BatchHeader, data: bytes) -> EndMarker:
    (record,) = records_of(data)
    assert record.key is not None
    assert record.value is not None
    _, kind = _KEY.unpack(record.key)
    _, coordinator_epoch = _VALUE.unpack(record.value)
    return EndMarker(header.producer_id, header.producer_epoch, coordinator_epoch, kind == _COMMIT)
