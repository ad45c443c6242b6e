"""The kernel that takes a fetch answer apart: batches that may be merged become one row, any other a row of its own.

A row describes its batches as one batch would be described (`runs.py` makes a header of it). Which batches may share
a row: small, dense, with a valid checksum, of one leader epoch, codec and age, each going on where the last one
ended, and with nothing in their attributes or producer id that a rule must look at.
"""

from __future__ import annotations

from numba import types

from heliograph.wire.batch_layout import (
    ATTRIBUTES_AT,
    BASE_OFFSET_LIMIT,
    BASE_SEQUENCE_AT,
    BASE_TIMESTAMP_AT,
    CODEC_BITS,
    COUNT_AT,
    CRC_AT,
    CRC_FROM,
    DELETE_HORIZON,
    HEADER_BYTES,
    LAST_OFFSET_DELTA_AT,
    LEADER_EPOCH_AT,
    LENGTH_AT,
    LENGTH_COUNTS_FROM,
    MAGIC,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    MIN_LENGTH,
    PRODUCER_AT,
    PRODUCER_EPOCH_AT,
)
from heliograph.wire.kernels.checksum import crc32c
from heliograph.wire.kernels.compiler import I64, READ, TABLE, Octets, Table, kernel
from heliograph.wire.kernels.memory import load8, load16, load32, load64
from heliograph.wire.kernels.rows import (
    AT,
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    BASE_TIMESTAMP,
    BATCHES,
    CHECKSUM,
    COUNT,
    LAST_OFFSET_DELTA,
    LEADER_EPOCH,
    LENGTH,
    MAX_TIMESTAMP,
    OLD,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    VERIFIED,
)

_ORDINARY = CODEC_BITS | DELETE_HORIZON
_HIGHEST_CODEC = 4
_U32 = 0xFFFFFFFF


@kernel(types.UniTuple(I64, 2)(READ, I64, I64, I64, I64, I64, TABLE))
def scan(
    data: Octets,
    start: int,
    plain_bytes: int,
    packed_bytes: int,
    old_before: int,
    stop_id_prefix: int,
    rows: Table,
) -> tuple[int, int]:
    """How many rows were filled, and where it ended: at the end, at a batch that is cut, at a header that is not of
    magic 2 or not possible, or at a batch for which there is no row left."""
    end = len(data)
    at = start
    row = -1
    mergeable = False  # whether the last row may take another batch
    next_offset = 0
    while end - at >= HEADER_BYTES:
        base_offset = load64(data, at)
        length = load32(data, at + LENGTH_AT)
        last_delta = load32(data, at + LAST_OFFSET_DELTA_AT)
        count = load32(data, at + COUNT_AT)
        if (
            load8(data, at + MAGIC_AT) != MAGIC
            or length < MIN_LENGTH
            or last_delta < 0
            or count < 0
            or base_offset < 0
            or base_offset >= BASE_OFFSET_LIMIT
        ):
            break
        behind = at + LENGTH_COUNTS_FROM + length
        if behind > end:
            break
        epoch = load32(data, at + LEADER_EPOCH_AT)
        attributes = load16(data, at + ATTRIBUTES_AT)
        max_timestamp = load64(data, at + MAX_TIMESTAMP_AT)
        producer_id = load64(data, at + PRODUCER_AT)
        checksum = load32(data, at + CRC_AT) & _U32
        old = 1 if max_timestamp < old_before else 0
        ordinary = (
            behind - at <= (packed_bytes if attributes & CODEC_BITS else plain_bytes)
            and attributes & ~_ORDINARY == 0
            and attributes & CODEC_BITS <= _HIGHEST_CODEC
            and last_delta + 1 == count
            and producer_id >> 32 != stop_id_prefix
            and crc32c(data, at + CRC_FROM, behind) == checksum
        )
        if (
            ordinary
            and mergeable
            and base_offset == next_offset
            and epoch == rows[row, LEADER_EPOCH]
            and (attributes ^ rows[row, ATTRIBUTES]) & CODEC_BITS == 0
            and old == rows[row, OLD]
        ):
            rows[row, BATCHES] += 1
            rows[row, LENGTH] += LENGTH_COUNTS_FROM + length
            rows[row, LAST_OFFSET_DELTA] += last_delta + 1
            rows[row, COUNT] += count
            rows[row, ATTRIBUTES] |= attributes
            rows[row, MAX_TIMESTAMP] = max(rows[row, MAX_TIMESTAMP], max_timestamp)
        else:
            if row + 1 == len(rows):
                break
            row += 1
            rows[row, AT] = at
            rows[row, BATCHES] = 1
            rows[row, VERIFIED] = 1 if ordinary else 0
            rows[row, OLD] = old
            rows[row, BASE_OFFSET] = base_offset
            rows[row, LENGTH] = length
            rows[row, LEADER_EPOCH] = epoch
            rows[row, CHECKSUM] = checksum
            rows[row, ATTRIBUTES] = attributes
            rows[row, LAST_OFFSET_DELTA] = last_delta
            rows[row, BASE_TIMESTAMP] = load64(data, at + BASE_TIMESTAMP_AT)
            rows[row, MAX_TIMESTAMP] = max_timestamp
            rows[row, PRODUCER_ID] = producer_id
            rows[row, PRODUCER_EPOCH] = load16(data, at + PRODUCER_EPOCH_AT)
            rows[row, BASE_SEQUENCE] = load32(data, at + BASE_SEQUENCE_AT)
            rows[row, COUNT] = count
        mergeable = ordinary
        next_offset = base_offset + last_delta + 1
        at = behind
    return row + 1, at
