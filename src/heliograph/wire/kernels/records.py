"""The first fields of a record, inside kernels: what all of them read in the same way.

size (varint)   attributes (1 byte)   timestamp delta (varlong)   offset delta (varint)   key, value, headers
"""

from __future__ import annotations

from heliograph.wire.kernels.compiler import Octets, part
from heliograph.wire.kernels.memory import load8
from heliograph.wire.kernels.varints import BROKEN, read_varint, read_varlong


@part
def read_head(data: Octets, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Attributes, timestamp delta, offset delta, where the rest begins (or BROKEN) and where the record ends."""
    size, at = read_varint(data, at, end)
    if at == BROKEN or size < 1 or size > end - at:
        return 0, 0, 0, BROKEN, BROKEN
    record_end = at + size
    attributes = load8(data, at)
    timestamp_delta, at = read_varlong(data, at + 1, record_end)
    if at == BROKEN:
        return 0, 0, 0, BROKEN, BROKEN
    offset_delta, at = read_varint(data, at, record_end)
    return attributes, timestamp_delta, offset_delta, at, record_end
