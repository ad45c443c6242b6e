"""The kernels for the message formats before Kafka 0.11: messages one behind the other become records of one batch.

    offset 8   size 4   crc 4   magic 1   attributes 1   [timestamp 8, in format 1]   key size 4, key   value size 4 ...

The size counts from the crc on; the crc, CRC-32 and not CRC32C, covers all behind it. Nothing is trusted but that
arrays are arrays.
"""

from __future__ import annotations

from heliograph.wire.batch_layout import BASE_OFFSET_LIMIT, CODEC_BITS, HEADER_BYTES
from heliograph.wire.kernels.checksum import crc32
from heliograph.wire.kernels.compiler import I64, NUMBERS, READ, WRITE, Numbers, Octets, kernel, part
from heliograph.wire.kernels.memory import copy, load8, load32, load64, store8
from heliograph.wire.kernels.survey import (
    BASE_TIMESTAMP,
    END_AT,
    FIRST_OFFSET,
    LAST_OFFSET,
    MAX_TIMESTAMP,
    MESSAGES,
    WRITTEN_TO,
)
from heliograph.wire.kernels.varints import varint_size, write_varint

_SIZE_AT, _CRC_AT, _MAGIC_AT, _ATTRIBUTES_AT, _REST_AT = 8, 12, 16, 17, 18
_TIMESTAMP_BYTES = 8
_FIELD_SIZE = 4
_MIN_BYTES = _REST_AT + 2 * _FIELD_SIZE
_MOST_APART = 2**31 - 2  # of the offsets in one batch
_NO_TIME = -1
_U32 = 0xFFFFFFFF
_BROKEN = -1


@part
def _sized(data: Octets, at: int, end: int) -> int:
    """What is behind a field and its size, which may be -1 for null; BROKEN if it does not fit."""
    if end - at < _FIELD_SIZE:
        return _BROKEN
    size = load32(data, at)
    at += _FIELD_SIZE
    if size < -1 or size > end - at:
        return _BROKEN
    return at + max(size, 0)  # type: ignore[no-any-return]


@part
def _message_end(data: Octets, at: int, end: int, magic: int) -> int:
    """Behind the whole message there, if it is one of this format that is not compressed; else BROKEN."""
    if end - at < _MIN_BYTES:
        return _BROKEN
    size = load32(data, at + _SIZE_AT)
    if size > end - at - _CRC_AT:
        return _BROKEN
    behind = at + _CRC_AT + size
    key_at = at + _REST_AT + (_TIMESTAMP_BYTES if magic == 1 else 0)
    if key_at > behind or load8(data, at + _MAGIC_AT) != magic:
        return _BROKEN
    if load8(data, at + _ATTRIBUTES_AT) & CODEC_BITS:
        return _BROKEN
    value_at = _sized(data, key_at, behind)
    if value_at == _BROKEN or _sized(data, value_at, behind) != behind:
        return _BROKEN
    if crc32(data, at + _MAGIC_AT, behind) != load32(data, at + _CRC_AT) & _U32:
        return _BROKEN
    return behind  # type: ignore[no-any-return]


@kernel(I64(READ, I64, I64, I64, NUMBERS))
def gather(data: Octets, start: int, magic: int, most_bytes: int, numbers: Numbers) -> int:
    """How many whole messages of this format there are from `start` on that are not compressed, have a valid checksum
    and offsets that grow; those of `most_bytes` at the most, and one in any case."""
    end = len(data)
    at = start
    numbers[MESSAGES] = 0
    while at < end:
        behind = _message_end(data, at, end, magic)
        if behind == _BROKEN or (behind - start > most_bytes and numbers[MESSAGES] > 0):
            break
        offset = load64(data, at)
        if offset < 0 or offset >= BASE_OFFSET_LIMIT:
            break
        timestamp = load64(data, at + _REST_AT) if magic == 1 else _NO_TIME
        if numbers[MESSAGES] == 0:
            numbers[FIRST_OFFSET] = offset
            numbers[MAX_TIMESTAMP] = timestamp
        elif offset <= numbers[LAST_OFFSET] or offset - numbers[FIRST_OFFSET] > _MOST_APART:
            break
        numbers[LAST_OFFSET] = offset
        numbers[MAX_TIMESTAMP] = max(numbers[MAX_TIMESTAMP], timestamp)
        numbers[MESSAGES] += 1
        at = behind
    numbers[END_AT] = at
    return numbers[MESSAGES]  # type: ignore[no-any-return]


@part
def _write_field(target: Octets, to: int, data: Octets, at: int) -> int:
    size = load32(data, at)
    to = write_varint(target, to, size)
    if size > 0:
        copy(target, to, data, at + _FIELD_SIZE, size)
        to += size
    return to


@kernel(I64(READ, I64, WRITE, I64, I64, NUMBERS))
def convert(data: Octets, magic: int, target: Octets, stamped: int, stamp: int, numbers: Numbers) -> int:
    """Writes all messages of `data` as records behind a header's place in `target`; how many, or -1 if they are not
    what `gather` takes, or do not fit. `stamped`: all have the time `stamp`."""
    end = len(data)
    room = len(target)
    at = 0
    to = HEADER_BYTES
    count = 0
    last_delta = -1
    while at < end:
        behind = _message_end(data, at, end, magic)
        if behind == _BROKEN:
            return -1
        offset = load64(data, at)
        if count == 0:
            numbers[FIRST_OFFSET] = offset
        delta = offset - numbers[FIRST_OFFSET]
        if offset < 0 or delta <= last_delta or delta > _MOST_APART:
            return -1
        last_delta = delta
        timestamp = stamp if stamped else (load64(data, at + _REST_AT) if magic == 1 else _NO_TIME)
        if count == 0:
            numbers[BASE_TIMESTAMP] = numbers[MAX_TIMESTAMP] = timestamp
        numbers[MAX_TIMESTAMP] = max(numbers[MAX_TIMESTAMP], timestamp)
        timestamp_delta = timestamp - numbers[BASE_TIMESTAMP]
        key_at = at + _REST_AT + (_TIMESTAMP_BYTES if magic == 1 else 0)
        key = load32(data, key_at)
        value_at = key_at + _FIELD_SIZE + max(key, 0)
        value = load32(data, value_at)
        size = 1 + varint_size(timestamp_delta) + varint_size(delta) + varint_size(key) + max(key, 0)
        size += varint_size(value) + max(value, 0) + 1
        if to + varint_size(size) + size > room:
            return -1
        to = write_varint(target, to, size)
        store8(target, to, 0)  # attributes
        to = write_varint(target, to + 1, timestamp_delta)
        to = write_varint(target, to, delta)
        to = _write_field(target, to, data, key_at)
        to = _write_field(target, to, data, value_at)
        store8(target, to, 0)  # no headers
        to += 1
        count += 1
        numbers[LAST_OFFSET] = offset
        at = behind
    numbers[MESSAGES] = count
    numbers[WRITTEN_TO] = to
    return count
