"""A small, slow, independent builder of record batches for tests: it shares no code with heliograph.wire."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable, Sequence

from crc32c import crc32c

Header = tuple[str, bytes | None]
Record = tuple[bytes | None, bytes | None, Sequence[Header]]

GZIP = 1
TRANSACTIONAL, CONTROL = 0x10, 0x20
DEFAULT_TIMESTAMP = 1_700_000_000_000


def varint(value: int) -> bytes:
    """Signed, zigzag."""
    number = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _sized(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


def encode_record(record: Record, offset_delta: int, timestamp_delta: int = 0) -> bytes:
    key, value, headers = record
    body = b"\0" + varint(timestamp_delta) + varint(offset_delta) + _sized(key) + _sized(value)
    body += varint(len(headers))
    for name, content in headers:
        body += _sized(name.encode()) + _sized(content)
    return varint(len(body)) + body


def make_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = 0,
    codec: int = 0,
    timestamp: int = DEFAULT_TIMESTAMP,
    attributes: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    last_offset_delta: int | None = None,
    offset_deltas: Sequence[int] | None = None,
    timestamps: Sequence[int] | None = None,
    compress: Callable[[bytes], bytes] | None = None,
) -> bytearray:
    """A whole batch of magic 2, uncompressed or gzip, or compressed by who asks. `attributes` are added to the codec's
    bits. `timestamps`: of each record, counted from `timestamp` all the same."""
    assert codec in (0, GZIP) or compress is not None
    times = [timestamp] * len(records) if timestamps is None else timestamps
    deltas = range(len(records)) if offset_deltas is None else offset_deltas
    payload = b"".join(
        encode_record(record, delta, moment - timestamp)
        for record, delta, moment in zip(records, deltas, times, strict=True)
    )
    if compress is not None:
        payload = compress(payload)
    elif codec == GZIP:
        payload = gzip.compress(payload, mtime=0)
    last_delta = len(records) - 1 if last_offset_delta is None else last_offset_delta
    checked = struct.pack(
        ">hiqqqhii",
        attributes | codec,
        last_delta,
        timestamp,
        max(times, default=timestamp),
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    checked += payload
    head = struct.pack(">qiibI", base_offset, len(checked) + 9, leader_epoch, 2, crc32c(checked))
    return bytearray(head + checked)


ABORT, COMMIT = 0, 1


def make_control_batch(
    kind: int,
    *,
    base_offset: int = 0,
    producer_id: int,
    producer_epoch: int = 0,
    coordinator_epoch: int = 0,
    timestamp: int = DEFAULT_TIMESTAMP,
    leader_epoch: int = 0,
) -> bytearray:
    """A control batch as brokers write it: one marker that ends a transaction."""
    key, value = struct.pack(">hh", 0, kind), struct.pack(">hi", 0, coordinator_epoch)
    return make_batch(
        [(key, value, ())],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timestamp=timestamp,
        leader_epoch=leader_epoch,
        attributes=CONTROL | TRANSACTIONAL,
    )


def make_legacy_message(value: bytes, *, offset: int = 0, magic: int = 1, attributes: int = 0) -> bytearray:
    """An uncompressed message of the formats before 0.11; its checksum is left 0."""
    timestamp = struct.pack(">q", DEFAULT_TIMESTAMP) if magic == 1 else b""
    body = struct.pack(">Ibb", 0, magic, attributes) + timestamp + struct.pack(">ii", -1, len(value)) + value
    return bytearray(struct.pack(">qi", offset, len(body)) + body)
