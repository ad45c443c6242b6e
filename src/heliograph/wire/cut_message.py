"""A fetch answer whose very first message does not fit into it, as brokers before Kafka 0.10.1 give it.

Owns how large that message is: all formats have offset and size at the same places. Must not know what is done about
it.
"""

from __future__ import annotations

import struct

from heliograph.wire.batch_layout import LENGTH_AT, LENGTH_COUNTS_FROM

_LENGTH = struct.Struct(">i")


def whole_bytes(records: memoryview) -> int | None:
    """How many bytes the first message takes if it was cut; None: it is whole, or there is none. Where not even its
    size is there: one byte more than that."""
    if not records:
        return None
    if len(records) < LENGTH_COUNTS_FROM:
        return LENGTH_COUNTS_FROM + 1
    size_bytes = int(_LENGTH.unpack_from(records, LENGTH_AT)[0]) + LENGTH_COUNTS_FROM
    return size_bytes if size_bytes > len(records) else None
