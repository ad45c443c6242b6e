"""What a broker demands of one raw batch, whoever sends it: the checks before its log is looked at.

Owns the order of the checks, which decides the code when a batch is wrong in two ways. Must not know logs,
leaders or producer state.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from crc32c import crc32c

from heliograph.model.errors import CorruptBatch
from heliograph.wire.batch import MAGIC, BatchHeader, verify_crc
from heliograph.wire.error_codes import ErrorCode

from .offset_index import INTERVAL_BYTES

_APPEND_TIME = 0x08
_CRC, _CRC_AT = struct.Struct(">I"), 17
_ATTRIBUTES, _ATTRIBUTES_AT = struct.Struct(">h"), 21
_MAX_TIMESTAMP, _MAX_TIMESTAMP_AT = struct.Struct(">q"), 35
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
FOREVER_MS = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What a topic takes of one batch, with the defaults of Kafka 4."""

    max_message_bytes: int = 1_048_588
    segment_bytes: int = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRules:
    """Settings of a topic and its brokers, with the defaults of Kafka 4."""

    sizes: Sizes = Sizes()
    timestamp_after_max_ms: int = HOUR_MS
    timestamp_before_max_ms: int = FOREVER_MS
    min_insync: int = 1
    producer_expiration_ms: int = DAY_MS
    log_append_time: bool = False  # message.timestamp.type
    deletes: bool = True  # cleanup.policy has delete,
    compacts: bool = False  # and compact
    index_interval_bytes: int = INTERVAL_BYTES
    segment_ms: int | None = None  # None: no segment is ever full


def stamped(header: BatchHeader, batch: memoryview, now_ms: int) -> tuple[BatchHeader, memoryview]:
    """With the broker's own time, as message.timestamp.type=LogAppendTime demands."""
    data = bytearray(batch)
    attributes = header.attributes | _APPEND_TIME
    _ATTRIBUTES.pack_into(data, _ATTRIBUTES_AT, attributes)
    _MAX_TIMESTAMP.pack_into(data, _MAX_TIMESTAMP_AT, now_ms)
    _CRC.pack_into(data, _CRC_AT, crc32c(data[_ATTRIBUTES_AT:]))
    return header._replace(attributes=attributes, max_timestamp=now_ms), memoryview(data)


def refusal(header: BatchHeader, batch: memoryview, rules: TopicRules, now_ms: int) -> int:
    """The code this batch is refused with, NONE if it may be appended as far as its own bytes say."""
    if header.magic != MAGIC:
        return ErrorCode.INVALID_RECORD
    if header.base_offset != 0:
        return ErrorCode.INVALID_RECORD
    if header.size_bytes > rules.sizes.max_message_bytes:
        return ErrorCode.MESSAGE_TOO_LARGE
    try:
        verify_crc(header, batch)
    except CorruptBatch:
        return ErrorCode.CORRUPT_MESSAGE
    if header.records_count <= 0 or not header.is_dense or header.is_control:
        return ErrorCode.INVALID_RECORD
    if header.producer_id >= 0 and header.base_sequence < 0:
        return ErrorCode.INVALID_RECORD
    ahead_ms = header.max_timestamp - now_ms
    if ahead_ms > rules.timestamp_after_max_ms or -ahead_ms > rules.timestamp_before_max_ms:
        return ErrorCode.INVALID_TIMESTAMP
    if header.size_bytes > rules.sizes.segment_bytes:
        return ErrorCode.RECORD_LIST_TOO_LARGE
    return ErrorCode.NONE
