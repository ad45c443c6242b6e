"""The cursor over the records of plain batches that matching.py walks with, for other kernels.

Fields: OFFSET, TIMESTAMP and ATTRIBUTES of the record that was found, and where its key begins (REST) and it ends
(REST_END). What `next_record` says: FOUND, NO_MORE, or any other number where a batch cannot be read.
"""

from __future__ import annotations

import numpy as np

from heliograph.wire.kernels.compiler import Numbers, part
from heliograph.wire.kernels.matching import _ATTRIBUTES as ATTRIBUTES
from heliograph.wire.kernels.matching import _CURSOR, _OFFSET
from heliograph.wire.kernels.matching import _END as NO_MORE
from heliograph.wire.kernels.matching import _FOUND as FOUND
from heliograph.wire.kernels.matching import _OFFSET as OFFSET
from heliograph.wire.kernels.matching import _RECORD_TIMESTAMP as TIMESTAMP
from heliograph.wire.kernels.matching import _REST as REST
from heliograph.wire.kernels.matching import _REST_END as REST_END
from heliograph.wire.kernels.matching import _next_record as next_record
from heliograph.wire.kernels.matching import _same_rest as same_rest

__all__ = [
    "ATTRIBUTES",
    "FOUND",
    "NO_MORE",
    "OFFSET",
    "REST",
    "REST_END",
    "TIMESTAMP",
    "new_cursor",
    "next_record",
    "same_rest",
]


@part
def new_cursor() -> Numbers:
    cursor = np.zeros(_CURSOR, np.int64)
    cursor[_OFFSET] = -1
    return cursor
