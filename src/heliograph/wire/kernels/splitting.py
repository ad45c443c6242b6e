"""The kernel that takes a plain batch's records apart into columns: places in the batch, no copies."""

from __future__ import annotations

from heliograph.wire.batch_layout import (
    ATTRIBUTES_AT,
    BASE_TIMESTAMP_AT,
    COUNT_AT,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAX_TIMESTAMP_AT,
)
from heliograph.wire.kernels.compiler import I64, READ, TABLE, Octets, Table, kernel, part
from heliograph.wire.kernels.memory import load16, load32, load64
from heliograph.wire.kernels.records import read_head
from heliograph.wire.kernels.varints import BROKEN, read_varint

_NULL = -1


@part
def _sized(data: Octets, at: int, end: int) -> tuple[int, int, int]:
    """Where a field's bytes begin, how many they are (-1: null), and what is behind them (or BROKEN)."""
    size, at = read_varint(data, at, end)
    if at == BROKEN or size < _NULL or size > end - at:
        return 0, 0, BROKEN
    return at, size, at + max(size, 0)


@kernel(I64(READ, TABLE, TABLE))
def split(data: Octets, records: Table, headers: Table) -> int:
    """Fills in the columns of all records, and of all headers if there is room for them; the number of headers, or
    -1 for what is no batch. `records` has a column for each record that the batch says it has."""
    stamped = load16(data, ATTRIBUTES_AT) & LOG_APPEND_TIME != 0
    batch_timestamp = load64(data, MAX_TIMESTAMP_AT if stamped else BASE_TIMESTAMP_AT)
    count = load32(data, COUNT_AT)
    fill = headers.shape[1] > 0
    total = 0
    end = len(data)
    at = HEADER_BYTES
    for nth in range(count):
        _, timestamp_delta, offset_delta, at, record_end = read_head(data, at, end)
        if at == BROKEN:
            return -1
        key_at, key_size, at = _sized(data, at, record_end)
        if at == BROKEN:
            return -1
        value_at, value_size, at = _sized(data, at, record_end)
        if at == BROKEN:
            return -1
        header_count, at = read_varint(data, at, record_end)
        if at == BROKEN or header_count < 0:
            return -1
        records[0, nth] = offset_delta
        records[1, nth] = batch_timestamp if stamped else batch_timestamp + timestamp_delta
        records[2, nth] = key_at
        records[3, nth] = key_size
        records[4, nth] = value_at
        records[5, nth] = value_size
        records[6, nth] = total
        for _ in range(header_count):
            name_at, name_size, at = _sized(data, at, record_end)
            if at == BROKEN or name_size < 0:
                return -1
            content_at, content_size, at = _sized(data, at, record_end)
            if at == BROKEN:
                return -1
            if fill and total < headers.shape[1]:
                headers[0, total] = name_at
                headers[1, total] = name_size
                headers[2, total] = content_at
                headers[3, total] = content_size
            total += 1
        if at != record_end:
            return -1
    if at != end:
        return -1
    return total
