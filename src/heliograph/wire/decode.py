"""A batch's records as columns: numbers, and places in one buffer. Nothing is copied but what had to be
decompressed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heliograph.model.errors import CorruptBatch
from heliograph.wire.batch import MAGIC, read_header
from heliograph.wire.batch_layout import HEADER_BYTES
from heliograph.wire.codecs import DEFAULT_LIMIT_BYTES
from heliograph.wire.kernels.loading import Kernels
from heliograph.wire.plain import not_its_records, plain_batches

Numbers = npt.NDArray[np.int64]
_RECORD_COLUMNS = 7
_HEADER_COLUMNS = 4
_MIN_RECORD_BYTES = 7  # size, attributes, two deltas, no key, no value, no headers


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """A field is `data[at : at + size]`, or null where its size is -1. The headers of record n are those from
    `first_header[n]` to `first_header[n + 1]`."""

    data: memoryview
    base_offset: int
    offset_delta: Numbers
    timestamp: Numbers
    key_at: Numbers
    key_size: Numbers
    value_at: Numbers
    value_size: Numbers
    first_header: Numbers
    header_key_at: Numbers
    header_key_size: Numbers
    header_value_at: Numbers
    header_value_size: Numbers

    def __len__(self) -> int:
        return len(self.offset_delta)

    def key_of(self, nth: int) -> bytes | None:
        at, size = int(self.key_at[nth]), int(self.key_size[nth])
        return None if size < 0 else bytes(self.data[at : at + size])


def decode(kernels: Kernels, batch: memoryview, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> Columns:
    """`batch` is one whole batch of magic 2, of any codec, whose checksum was verified. With log append time all
    records have the batch's."""
    header = read_header(batch)
    if header.magic != MAGIC or header.size_bytes != len(batch):
        raise CorruptBatch(f"what is at offset {header.base_offset} is not one batch of magic 2")
    data = plain_batches([batch], limit_bytes=limit_bytes)
    count = header.records_count
    if count * _MIN_RECORD_BYTES > len(data) - HEADER_BYTES:
        raise not_its_records(header.base_offset)
    octets = np.frombuffer(data, np.uint8)
    records = np.empty((_RECORD_COLUMNS, count + 1), np.int64)
    headers = np.empty((_HEADER_COLUMNS, 0), np.int64)
    found = kernels.split(octets, records, headers)
    if found < 0:
        raise not_its_records(header.base_offset)
    if found:
        headers = np.empty((_HEADER_COLUMNS, found), np.int64)
        kernels.split(octets, records, headers)
    records[-1, count] = found
    offset_delta, timestamp, key_at, key_size, value_at, value_size = records[:-1, :count]
    return Columns(
        data=data,
        base_offset=header.base_offset,
        offset_delta=offset_delta,
        timestamp=timestamp,
        key_at=key_at,
        key_size=key_size,
        value_at=value_at,
        value_size=value_size,
        first_header=records[-1],
        header_key_at=headers[0],
        header_key_size=headers[1],
        header_value_at=headers[2],
        header_value_size=headers[3],
    )


def offsets_in(kernels: Kernels, plain: memoryview, first_offset: int, next_offset: int) -> list[int]:
    """The offsets of a plain batch's records in [first_offset, next_offset)."""
    columns = decode(kernels, plain)
    offsets = columns.base_offset + columns.offset_delta
    return [int(offset) for offset in offsets[(offsets >= first_offset) & (offsets < next_offset)]]
