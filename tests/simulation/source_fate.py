"""Which offsets of a source hold a record to copy: decided by the judge itself, from the markers in the log.

    plain record                    to be copied
    record of a transaction         when its marker is there: to be copied, or nothing; before that nobody knows
    marker, hole, below the start   nothing

Shares no code with what brokers tell of aborted transactions (transactions.py), nor with what filters by it. What was
decided once stays so where the log is cut: such a transaction ends as it did (source_transactions.py).
"""

from __future__ import annotations

from heliograph.wire.batch import BatchHeader

from .control_batch import read_marker
from .record_reader import records_of
from .replica import Stored
from .source_log import SourceLog


class SourceFate:
    def __init__(self, source: SourceLog) -> None:
        self._source = source
        self._known: dict[int, bool] = {}
        self._former: dict[int, bool] = {}
        self._open: dict[int, list[int]] = {}
        self._next_offset = 0

    def change(self, at: int) -> None:
        """From this offset on the source will be another one."""
        self.look()
        self._former |= {offset: known for offset, known in self._known.items() if offset >= at}
        self._known = {offset: known for offset, known in self._known.items() if offset < at}
        self._open = {}
        self._next_offset = 0

    def now(self, offset: int) -> bool | None:
        """Whether it holds a record to copy; None: that is not decided."""
        return self._known.get(offset)

    def ever(self, offset: int) -> set[bool | None]:
        return {self._known.get(offset), self._former.get(offset)}

    def look(self) -> None:
        """At what has come since the last time."""
        partition = self._source.partition
        if partition is None or partition.leader_replica.end <= self._next_offset:
            return
        replica = partition.leader_replica
        if self._next_offset < replica.start:
            self._nothing_before(replica.start)
        for stored in replica.batches[replica.index_of(self._next_offset) :]:
            self._nothing_before(stored.header.base_offset)
            self._take(stored)
            self._next_offset = stored.header.next_offset

    def _nothing_before(self, offset: int) -> None:
        for absent in range(self._next_offset, offset):
            self._known.setdefault(absent, False)
        self._next_offset = max(self._next_offset, offset)

    def _take(self, stored: Stored) -> None:
        header = stored.header
        offsets = range(max(header.base_offset, self._next_offset), header.next_offset)
        if header.is_control:
            self._decide(offsets, copied=False)
            if read_marker(header, stored.data).commits:
                self._decide(self._open.pop(header.producer_id, []), copied=True)
            else:
                self._decide(self._open.pop(header.producer_id, []), copied=False)
        else:
            held = {header.base_offset + each.offset_delta for each in records_of(stored.data)}
            self._decide([each for each in offsets if each not in held], copied=False)  # compaction took them
            held_from = [each for each in offsets if each in held]
            if self._waits(header):
                self._open.setdefault(header.producer_id, []).extend(held_from)
            else:
                self._decide(held_from, copied=True)

    def _waits(self, header: BatchHeader) -> bool:
        return header.is_transactional and self._source.committed

    def _decide(self, offsets: list[int] | range, *, copied: bool) -> None:
        for offset in offsets:
            self._known.setdefault(offset, copied)
