"""A Fetch request's bytes, versions 0 to 13.

Owns: the request's layout. Must not know why something is asked for, or forgotten (cluster/fetch_session.py).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from heliograph.wire import writer
from heliograph.wire.fetch import (
    FETCH_BY_ID_FROM,
    FETCH_FLEXIBLE_FROM,
    FETCH_ISOLATED_FROM,
    FETCH_LIMITED_FROM,
    FETCH_SESSIONS_FROM,
    FETCH_VERSIONS,
    NO_SESSION,
    FetchWant,
)
from heliograph.wire.topic_ids import TOPIC_ID_BYTES

# A session's epochs: it begins with a request that names everything; the last one ends it, or has none at all.
FIRST_EPOCH, LAST_EPOCH = 0, -1

_CONSUMER = -1
_UNKNOWN = -1
_T = TypeVar("_T")

_REQUEST_HEAD = struct.Struct(">iii")
_MAX_BYTES = struct.Struct(">i")
_ISOLATION = struct.Struct(">b")
_SESSION = struct.Struct(">ii")
_INDEX = struct.Struct(">i")
_WANT_V4 = struct.Struct(">iqi")
_WANT_V5 = struct.Struct(">iqqi")
_WANT_V9 = struct.Struct(">iiqqi")
_WANT_V12 = struct.Struct(">iiqiqib")  # its last byte: no tagged fields


class FetchAsk(NamedTuple):
    """What a request asks for: all of it, or what has changed since the session's last request.

    `forgotten`: what the session holds and shall not be asked for any more, as it was asked for. `names`: the topics
    by their ids, which the answer names them by too; None: they go by their names, which ends with version 12.
    """

    wants: list[FetchWant]
    forgotten: list[FetchWant]
    session_id: int = NO_SESSION
    session_epoch: int = LAST_EPOCH
    names: Mapping[bytes, str] | None = None


def encode_fetch(
    version: int,
    ask: FetchAsk,
    *,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    read_committed: bool,
) -> bytes:
    """The request's body, its wants grouped by topic in the order of first appearance. `max_bytes` is said from version
    3 on, `read_committed` from 4 on: brokers before that know no transactions."""
    assert version in FETCH_VERSIONS, version
    flexible = version >= FETCH_FLEXIBLE_FROM
    parts = [_REQUEST_HEAD.pack(_CONSUMER, max_wait_ms, min_bytes)]
    if version >= FETCH_LIMITED_FROM:
        parts.append(_MAX_BYTES.pack(max_bytes))
    if version >= FETCH_ISOLATED_FROM:
        parts.append(_ISOLATION.pack(read_committed))
    if version >= FETCH_SESSIONS_FROM:
        parts.append(_SESSION.pack(ask.session_id, ask.session_epoch))
    _encode_topics(parts, version, ask.wants, lambda want: _encode_want(version, want))
    if version >= FETCH_SESSIONS_FROM:
        _encode_topics(parts, version, ask.forgotten, lambda want: _INDEX.pack(want.partition))
    if version >= 11:
        parts.append(writer.string("", flexible=flexible))  # the rack
    if flexible:
        parts.append(writer.NO_TAGGED_FIELDS)
    return b"".join(parts)


def _encode_topics(
    parts: list[bytes], version: int, wants: Iterable[FetchWant], encode: Callable[[FetchWant], bytes]
) -> None:
    flexible = version >= FETCH_FLEXIBLE_FROM
    by_topic = _grouped(wants, lambda want: want.topic_id if version >= FETCH_BY_ID_FROM else want.topic)
    parts.append(writer.size(len(by_topic), flexible=flexible))
    for topic, group in by_topic.items():
        if isinstance(topic, str):
            parts.append(writer.string(topic, flexible=flexible))
        else:
            assert len(topic) == TOPIC_ID_BYTES, topic
            parts.append(topic)
        parts.append(writer.size(len(group), flexible=flexible))
        parts.extend(map(encode, group))
        if flexible:
            parts.append(writer.NO_TAGGED_FIELDS)


def _grouped(wants: Iterable[FetchWant], topic_of: Callable[[FetchWant], _T]) -> dict[_T, list[FetchWant]]:
    by_topic: dict[_T, list[FetchWant]] = {}
    for want in wants:
        by_topic.setdefault(topic_of(want), []).append(want)
    return by_topic


def _encode_want(version: int, want: FetchWant) -> bytes:
    _, partition, next_offset, max_bytes, leader_epoch, last_fetched_epoch, _ = want
    if version >= 12:
        return _WANT_V12.pack(
            partition, leader_epoch, next_offset, last_fetched_epoch, _UNKNOWN, max_bytes, 0
        )
    if version >= 9:
        return _WANT_V9.pack(partition, leader_epoch, next_offset, _UNKNOWN, max_bytes)
    if version >= 5:
        return _WANT_V5.pack(partition, next_offset, _UNKNOWN, max_bytes)
    return _WANT_V4.pack(partition, next_offset, max_bytes)
