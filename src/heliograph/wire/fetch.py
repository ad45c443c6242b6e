"""Fetch, versions 4 to 12: what we ask of a partition's leader and what it answers.

Owns: the layout of both messages. Must not know the records inside (batch.py) nor the connection. Requests
are always without a fetch session: what we want changes with every request, and a session would be state
at the broker that a lost answer leaves in doubt.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from heliograph.wire import writer
from heliograph.wire.reader import Reader

FETCH_VERSIONS = range(4, 13)
FETCH_FLEXIBLE_FROM = 12

_CONSUMER = -1
_NO_SESSION = (0, -1)
_UNKNOWN = -1

_REQUEST_HEAD = struct.Struct(">iiiib")
_SESSION = struct.Struct(">ii")
_WANT_V4 = struct.Struct(">iqi")
_WANT_V5 = struct.Struct(">iqqi")
_WANT_V9 = struct.Struct(">iiqqi")
_WANT_V12 = struct.Struct(">iiqiqib")  # its last byte: no tagged fields

_INT32 = struct.Struct(">i")
_ERROR_AND_SESSION = struct.Struct(">hi")
_PARTITION_V4 = struct.Struct(">ihqq")
_PARTITION_V5 = struct.Struct(">ihqqq")
_ABORTED_BYTES = 16
# The least a topic or partition can take in any version: enough to refuse absurd counts.
_TOPIC_MIN_BYTES = 3
_PARTITION_MIN_BYTES = _PARTITION_V4.size + 2

_DIVERGING_EPOCH_TAG = 0
_CURRENT_LEADER_TAG = 1
_EPOCH_END_OFFSET = struct.Struct(">iq")
_LEADER_ID_AND_EPOCH = struct.Struct(">ii")


class FetchWant(NamedTuple):
    topic: str
    partition: int
    next_offset: int
    max_bytes: int
    leader_epoch: int = -1
    last_fetched_epoch: int = -1


class FetchedPartition(NamedTuple):
    topic: str
    partition: int
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int  # -1 below version 5
    preferred_read_replica: int  # -1 below version 11
    records: memoryview  # into the answer's body
    diverging_epoch: tuple[int, int] | None  # epoch, its end offset
    current_leader: tuple[int, int] | None  # broker id, leader epoch


class FetchReply(NamedTuple):
    """`compares_epochs`: the broker has compared the epochs in the request with its log, and tells of a truncation."""

    throttle_ms: int
    error: int
    partitions: list[FetchedPartition]
    compares_epochs: bool = True


def encode_fetch(
    version: int,
    wants: Iterable[FetchWant],
    *,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    read_committed: bool,
) -> bytes:
    """The request's body, its wants grouped by topic in the order of first appearance."""
    assert version in FETCH_VERSIONS, version
    flexible = version >= FETCH_FLEXIBLE_FROM
    parts = [_REQUEST_HEAD.pack(_CONSUMER, max_wait_ms, min_bytes, max_bytes, read_committed)]
    if version >= 7:
        parts.append(_SESSION.pack(*_NO_SESSION))
    by_topic: dict[str, list[bytes]] = {}
    for want in wants:
        by_topic.setdefault(want.topic, []).append(_encode_want(version, want))
    parts.append(writer.size(len(by_topic), flexible=flexible))
    for topic, encoded_wants in by_topic.items():
        parts.append(writer.string(topic, flexible=flexible))
        parts.append(writer.size(len(encoded_wants), flexible=flexible))
        parts.extend(encoded_wants)
        if flexible:
            parts.append(writer.NO_TAGGED_FIELDS)
    parts.append(_encode_tail(version, flexible=flexible))
    return b"".join(parts)


def _encode_want(version: int, want: FetchWant) -> bytes:
    _, partition, next_offset, max_bytes, leader_epoch, last_fetched_epoch = want
    if version >= 12:
        return _WANT_V12.pack(
            partition, leader_epoch, next_offset, last_fetched_epoch, _UNKNOWN, max_bytes, 0
        )
    if version >= 9:
        return _WANT_V9.pack(partition, leader_epoch, next_offset, _UNKNOWN, max_bytes)
    if version >= 5:
        return _WANT_V5.pack(partition, next_offset, _UNKNOWN, max_bytes)
    return _WANT_V4.pack(partition, next_offset, max_bytes)


def _encode_tail(version: int, *, flexible: bool) -> bytes:
    forgotten_topics = writer.size(0, flexible=flexible) if version >= 7 else b""
    rack = writer.string("", flexible=flexible) if version >= 11 else b""
    return forgotten_topics + rack + (writer.NO_TAGGED_FIELDS if flexible else b"")


def decode_fetch(version: int, body: memoryview) -> FetchReply:
    assert version in FETCH_VERSIONS, version
    reader = Reader(body, flexible=version >= FETCH_FLEXIBLE_FROM)
    throttle_ms = reader.int32()
    error = reader.unpack(_ERROR_AND_SESSION)[0] if version >= 7 else 0
    partitions: list[FetchedPartition] = []
    for _ in range(reader.count(_TOPIC_MIN_BYTES)):
        topic = reader.string()
        for _ in range(reader.count(_PARTITION_MIN_BYTES)):
            partitions.append(_decode_partition(version, topic, reader))
        reader.skip_tagged_fields()
    reader.skip_tagged_fields()
    reader.expect_end()
    return FetchReply(throttle_ms, error, partitions, version >= 12)


def _decode_partition(version: int, topic: str, reader: Reader) -> FetchedPartition:
    if version >= 5:
        partition, error, high_watermark, last_stable, log_start = reader.unpack(_PARTITION_V5)
    else:
        partition, error, high_watermark, last_stable = reader.unpack(_PARTITION_V4)
        log_start = _UNKNOWN
    _skip_aborted_transactions(reader, flexible=version >= FETCH_FLEXIBLE_FROM)
    replica = reader.unpack(_INT32)[0] if version >= 11 else _UNKNOWN
    records = reader.nullable_bytes()
    diverging_epoch = current_leader = None
    if version >= FETCH_FLEXIBLE_FROM:
        diverging_epoch, current_leader = _decode_partition_tags(reader)
    return FetchedPartition(
        topic,
        partition,
        error,
        high_watermark,
        last_stable,
        log_start,
        replica,
        records,
        diverging_epoch,
        current_leader,
    )


def _skip_aborted_transactions(reader: Reader, *, flexible: bool) -> None:
    count = reader.nullable_count(_ABORTED_BYTES)
    if not count:
        return
    if not flexible:
        reader.skip(count * _ABORTED_BYTES)
        return
    for _ in range(count):
        reader.skip(_ABORTED_BYTES)
        reader.skip_tagged_fields()


def _decode_partition_tags(reader: Reader) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    diverging_epoch = current_leader = None
    for tag, content in reader.tagged_fields():
        if tag == _DIVERGING_EPOCH_TAG:
            diverging_epoch = _decode_pair(content, _EPOCH_END_OFFSET)
        elif tag == _CURRENT_LEADER_TAG:
            current_leader = _decode_pair(content, _LEADER_ID_AND_EPOCH)
    return diverging_epoch, current_leader


def _decode_pair(content: memoryview, layout: struct.Struct) -> tuple[int, int] | None:
    reader = Reader(content, flexible=True)
    first, second = reader.unpack(layout)
    reader.skip_tagged_fields()
    reader.expect_end()
    # The protocol's defaults say the same as the field's absence.
    return None if (first, second) == (_UNKNOWN, _UNKNOWN) else (first, second)
