"""How much one fetch may bring, and how long it may wait for it. Must not know whom it is for."""

from __future__ import annotations

from collections.abc import Callable

from heliograph.copier.budget import ByteBudget
from heliograph.wire.fetch import FetchReply

LEAST_FETCH_BYTES = 1 << 16
# What an answer holds beside records, for each partition and in all: numbers, aborted transactions, topic names.
BESIDE_RECORDS_BYTES = 128
FETCH_SHARE = 4  # one in so many parts of a lane's memory is asked for at once; the rest is on its way


class FetchLimits:
    """The fetches that a lane has under way share a quarter of its budget; the rest is on its way. `under_way()`: how
    many those are."""

    def __init__(
        self,
        budget: ByteBudget,
        under_way: Callable[[], int],
        fetch_bytes: int,
        partition_bytes: int,
        wait_ms: int,
    ) -> None:
        self.budget = budget
        self.partition_bytes = partition_bytes
        self.wait_ms = wait_ms
        self._under_way = under_way
        self._fetch_bytes = fetch_bytes

    def buffer_bytes(self, partitions: int) -> int:
        """The buffer for an answer about so many partitions: a power of two, rounded down, because buffers are powers
        of two (cluster/receive_buffers.py). Rounded up, a lane would take twice the memory that it counts."""
        share = self.budget.limit_bytes // (FETCH_SHARE * max(self._under_way(), 1))
        most_bytes = min(self._fetch_bytes, max(share, LEAST_FETCH_BYTES), self.partition_bytes * partitions)
        return 1 << (max(most_bytes, 1).bit_length() - 1)


def records_in(buffer_bytes: int, partitions: int) -> int:
    """How many bytes of records to ask for, so that the whole answer fits into the buffer. It is a wish: a larger batch
    comes all the same, if it is the first."""
    return max(buffer_bytes - BESIDE_RECORDS_BYTES * (partitions + 8), buffer_bytes // 2)


def resident_bytes(reply: FetchReply) -> int:
    """What the answer keeps alive: whole buffers, however little of them it fills."""
    buffers = {
        id(part.records.obj): memoryview(part.records.obj) for part in reply.partitions if part.records
    }
    return sum(buffer.nbytes for buffer in buffers.values())
