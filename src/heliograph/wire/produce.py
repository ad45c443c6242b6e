"""Produce, versions 3 to 13: record batches on their way to a leader, and its acknowledgements.

Owns: the layout of both messages. Must not know what is in a batch nor the connection. The batches are
handed on as the caller's own views between small buffers of ours: not a byte of them is copied.

From version 13 on a topic goes by its id: a topic that was deleted and created again under the same name refuses
what was meant for the old one (UNKNOWN_TOPIC_ID), where by name it would be appended.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from heliograph.wire import writer
from heliograph.wire.reader import Reader
from heliograph.wire.topic_ids import NO_NAMES, TOPIC_ID_BYTES, read_topic

PRODUCE_VERSIONS = range(3, 14)
PRODUCE_FLEXIBLE_FROM = 9
PRODUCE_BY_ID_FROM = 13

_UNKNOWN = -1
_REQUEST_HEAD = struct.Struct(">hhi")  # transactional id, acks, timeout
_REQUEST_HEAD_FLEXIBLE = struct.Struct(">bhi")
_INDEX = struct.Struct(">i")
_INDEX_AND_SIZE = struct.Struct(">ii")
_INDEX_AND_3_SEPTETS = struct.Struct(">iBBB")

_PARTITION_V3 = struct.Struct(">ihqq")
_PARTITION_V5 = struct.Struct(">ihqqq")
# The least a topic or partition can take in any version: enough to refuse absurd counts.
_TOPIC_MIN_BYTES = 3
_PARTITION_MIN_BYTES = _PARTITION_V3.size
_RECORD_ERROR_MIN_BYTES = 6


class ProduceEntry(NamedTuple):
    topic: str
    partition: int
    batch: memoryview
    topic_id: bytes = b""


class ProducedPartition(NamedTuple):
    topic: str
    partition: int
    error: int
    base_offset: int
    log_start_offset: int  # -1 below version 5
    message: str  # the broker's words on a refusal, from version 8 on; else empty
    append_time: int = -1  # what the broker has written into the batch, if it has


class ProduceReply(NamedTuple):
    throttle_ms: int
    partitions: list[ProducedPartition]


def encode_produce(
    version: int, entries: Iterable[ProduceEntry], *, timeout_ms: int, acks: int = -1
) -> list[bytes | memoryview]:
    """The request's body as buffers to be written one after another. A broker takes one batch per partition
    and request; to see to that is the caller's."""
    assert version in PRODUCE_VERSIONS, version
    flexible = version >= PRODUCE_FLEXIBLE_FROM
    by_topic = _by_id(entries) if version >= PRODUCE_BY_ID_FROM else _by_name(entries, flexible=flexible)
    between = _encode_head(acks, timeout_ms, flexible=flexible) + writer.size(
        len(by_topic), flexible=flexible
    )
    end_of_struct = writer.NO_TAGGED_FIELDS if flexible else b""
    buffers: list[bytes | memoryview] = []
    for topic, topic_entries in by_topic.items():
        between += topic + writer.size(len(topic_entries), flexible=flexible)
        for _, partition, batch, _ in topic_entries:
            buffers.append(between + _encode_index_and_size(partition, batch.nbytes, flexible=flexible))
            buffers.append(batch)
            between = end_of_struct
        between += end_of_struct
    between += end_of_struct
    if between:
        buffers.append(between)
    return buffers


def _by_id(entries: Iterable[ProduceEntry]) -> dict[bytes, list[ProduceEntry]]:
    by_id: dict[bytes, list[ProduceEntry]] = {}
    for entry in entries:
        by_id.setdefault(entry.topic_id, []).append(entry)
    assert all(len(topic_id) == TOPIC_ID_BYTES for topic_id in by_id), by_id
    return by_id


def _by_name(entries: Iterable[ProduceEntry], *, flexible: bool) -> dict[bytes, list[ProduceEntry]]:
    by_name: dict[str, list[ProduceEntry]] = {}
    for entry in entries:
        by_name.setdefault(entry.topic, []).append(entry)
    return {writer.string(name, flexible=flexible): group for name, group in by_name.items()}


def _encode_head(acks: int, timeout_ms: int, *, flexible: bool) -> bytes:
    """Without a transactional id: its null is 0 in compact form, -1 in classic."""
    if flexible:
        return _REQUEST_HEAD_FLEXIBLE.pack(0, acks, timeout_ms)
    return _REQUEST_HEAD.pack(-1, acks, timeout_ms)


def _encode_index_and_size(partition: int, size_bytes: int, *, flexible: bool) -> bytes:
    if not flexible:
        return _INDEX_AND_SIZE.pack(partition, size_bytes)
    length = size_bytes + 1
    if 0x4000 <= length < 0x20_0000:  # most batches, 16 KiB to 2 MiB: half the time of the general way
        low, middle, high = length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14
        return _INDEX_AND_3_SEPTETS.pack(partition, low, middle, high)
    return _INDEX.pack(partition) + writer.uvarint(length)


def decode_produce(version: int, body: memoryview, names: Mapping[bytes, str] = NO_NAMES) -> ProduceReply:
    """`names`, by id, of the topics that were sent: from version 13 on an answer names none."""
    assert version in PRODUCE_VERSIONS, version
    reader = Reader(body, flexible=version >= PRODUCE_FLEXIBLE_FROM)
    partitions: list[ProducedPartition] = []
    for _ in range(reader.count(_TOPIC_MIN_BYTES)):
        topic = reader.string() if version < PRODUCE_BY_ID_FROM else read_topic(reader, names)
        for _ in range(reader.count(_PARTITION_MIN_BYTES)):
            partitions.append(_decode_partition(version, topic, reader))
        reader.skip_tagged_fields()
    throttle_ms = reader.int32()
    reader.skip_tagged_fields()
    reader.expect_end()
    return ProduceReply(throttle_ms, partitions)


def _decode_partition(version: int, topic: str, reader: Reader) -> ProducedPartition:
    if version >= 5:
        partition, error, base_offset, append_time, log_start = reader.unpack(_PARTITION_V5)
    else:
        partition, error, base_offset, append_time = reader.unpack(_PARTITION_V3)
        log_start = _UNKNOWN
    message = _decode_message(reader) if version >= 8 else ""
    reader.skip_tagged_fields()
    return ProducedPartition(topic, partition, error, base_offset, log_start, message, append_time)


def _decode_message(reader: Reader) -> str:
    """The message on the batch, else the first on one of its records."""
    of_a_record = ""
    for _ in range(reader.count(_RECORD_ERROR_MIN_BYTES)):
        reader.int32()
        of_this_record = reader.nullable_string() or ""
        of_a_record = of_a_record or of_this_record
        reader.skip_tagged_fields()
    return reader.nullable_string() or of_a_record
