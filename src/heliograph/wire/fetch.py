"""Fetch, versions 0 to 13: what may be asked of a partition's leader, and how its answer is read.

Owns: both messages' values and the answer's layout; the request's is fetch_request.py's. Must not know the records
inside (batch.py), the connection, nor what a fetch session holds (cluster/fetch_session.py). Which format the records
have follows from the version: magic 0 up to version 1, 0 or 1 up to version 3, any from 4 on.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from heliograph.wire.reader import Reader
from heliograph.wire.topic_ids import NO_NAMES, read_topic

FETCH_VERSIONS = range(14)
FETCH_THROTTLED_FROM = 1
# From here on an answer has a limit as a whole, and its first message comes whole, however large it is.
FETCH_LIMITED_FROM = 3
FETCH_ISOLATED_FROM = 4
FETCH_SESSIONS_FROM = 7
FETCH_FLEXIBLE_FROM = 12
FETCH_BY_ID_FROM = 13
NO_SESSION = 0

_UNKNOWN = -1

_INT32 = struct.Struct(">i")
_ERROR_AND_SESSION = struct.Struct(">hi")
_PARTITION_V0 = struct.Struct(">ihq")
_PARTITION_V4 = struct.Struct(">ihqq")
_PARTITION_V5 = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")  # producer id, first offset
# The least a topic or partition can take in any version: enough to refuse absurd counts.
_TOPIC_MIN_BYTES = 3
_PARTITION_MIN_BYTES = _PARTITION_V0.size + 2

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
    topic_id: bytes = b""  # from version 13 on the topic goes by it; empty where it is not known


class FetchedPartition(NamedTuple):
    topic: str
    partition: int
    error: int
    high_watermark: int
    last_stable_offset: int  # -1 below version 4
    log_start_offset: int  # -1 below version 5
    preferred_read_replica: int  # -1 below version 11
    records: memoryview  # into the answer's body
    diverging_epoch: tuple[int, int] | None  # epoch, its end offset
    current_leader: tuple[int, int] | None  # broker id, leader epoch
    aborted: tuple[
        tuple[int, int], ...
    ] = ()  # transactions: producer id, first offset; for read_committed only


class FetchReply(NamedTuple):
    """`compares_epochs`: the broker has compared the epochs in the request with its log, and tells of a truncation.
    `session_id`: of the fetch session that the request was of, or has begun; NO_SESSION: the broker keeps none."""

    throttle_ms: int
    error: int
    partitions: list[FetchedPartition]
    compares_epochs: bool = True
    session_id: int = NO_SESSION


def decode_fetch(version: int, body: memoryview, names: Mapping[bytes, str] = NO_NAMES) -> FetchReply:
    """`names`, by id, of the topics that were asked for: from version 13 on an answer names none."""
    assert version in FETCH_VERSIONS, version
    reader = Reader(body, flexible=version >= FETCH_FLEXIBLE_FROM)
    throttle_ms = reader.int32() if version >= FETCH_THROTTLED_FROM else 0
    error, session_id = (
        reader.unpack(_ERROR_AND_SESSION) if version >= FETCH_SESSIONS_FROM else (0, NO_SESSION)
    )
    partitions: list[FetchedPartition] = []
    for _ in range(reader.count(_TOPIC_MIN_BYTES)):
        topic = reader.string() if version < FETCH_BY_ID_FROM else read_topic(reader, names)
        for _ in range(reader.count(_PARTITION_MIN_BYTES)):
            partitions.append(_decode_partition(version, topic, reader))
        reader.skip_tagged_fields()
    reader.skip_tagged_fields()
    reader.expect_end()
    return FetchReply(throttle_ms, error, partitions, version >= 12, session_id)


def _decode_partition(version: int, topic: str, reader: Reader) -> FetchedPartition:
    if version >= 5:
        partition, error, high_watermark, last_stable, log_start = reader.unpack(_PARTITION_V5)
    elif version >= FETCH_ISOLATED_FROM:
        partition, error, high_watermark, last_stable = reader.unpack(_PARTITION_V4)
        log_start = _UNKNOWN
    else:
        partition, error, high_watermark = reader.unpack(_PARTITION_V0)
        last_stable = log_start = _UNKNOWN
    # Null or, as a rule, none: spare the call.
    aborted_count = reader.nullable_count(_ABORTED.size) if version >= FETCH_ISOLATED_FROM else 0
    aborted = _decode_aborted(reader, aborted_count) if aborted_count else ()
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
        aborted,
    )


def _decode_aborted(reader: Reader, count: int) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for _ in range(count):
        producer_id, first_offset = reader.unpack(_ABORTED)
        reader.skip_tagged_fields()
        found.append((producer_id, first_offset))
    return tuple(found)


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
