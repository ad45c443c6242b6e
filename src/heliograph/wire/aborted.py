"""Which batches of a fetch answer belong to aborted transactions, as a read_committed consumer finds out.

Owns the rule. Must not know what is done with such a batch. A broker that is asked for committed records sends the
aborted ones too, and a list: producer id and first offset of each aborted transaction that the answer meets. From that
offset on all transactional batches of the producer are aborted, until its abort marker. What of a transaction was in an
earlier answer does not matter: each answer's list is complete for the answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from heliograph.wire.batch import BatchHeader
from heliograph.wire.control_batch import MarkerKind, read_marker


class AbortedFilter:
    """Of one answer, or of several that follow each other with their lists joined. Give it every batch, in order."""

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        self._later = deque(sorted(aborted, key=lambda each: each[1])) if aborted else deque()
        self._aborting: set[int] = set()  # producer ids

    def is_aborted(self, header: BatchHeader, view: memoryview) -> bool:
        """Never of a control batch. `view` is the whole batch; only that of a control batch is looked at, and one that
        does not hold a control record is a `CorruptBatch`."""
        later, aborting = self._later, self._aborting
        if not later and not aborting:
            return False  # nearly always
        while later and later[0][1] < header.next_offset:
            aborting.add(later.popleft()[0])
        if header.producer_id not in aborting:
            return False
        if not header.is_control:
            return header.is_transactional
        if read_marker(header, view).kind is MarkerKind.ABORT:
            aborting.discard(header.producer_id)
        return False
