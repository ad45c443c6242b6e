"""Whether a batch of the target's log holds the source's records (P1, P4, P5), however they are put into batches there,
and nothing where the source has nothing to copy.

Owns what the source holds and held. Must not know the target's replicas or when something is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from heliograph.wire.batch import payload_equal

from .record_reader import SeenRecord, Unreadable, records_of
from .replica import Stored
from .source_fate import SourceFate
from .source_log import SourceLog

Known = Callable[[int], list[Stored]]
Fates = Callable[[int], set[bool | None]]


class SourceHistory:
    """`changed_at`: from this offset on the source holds, or will hold, something else than it did. `told_lost`: which
    offsets a copier has said it goes on without, because retention took them; only those may be filled so."""

    def __init__(self, source: SourceLog) -> None:
        self._source = source
        self.told_lost: set[int] = set()
        self._fate = SourceFate(source)
        self._deleted: dict[int, Stored] = {}  # by each offset: what was there until retention took it
        self._former: dict[int, Stored] = {}  # by each offset: what was there before the source was changed
        self.changed_at: int | None = None

    def change(self, at: int) -> None:
        self.changed_at = at
        self._fate.change(at)
        self._former = self._deleted | _by_offset(self._source.log)
        self._deleted = {offset: stored for offset, stored in self._deleted.items() if offset < at}

    def retain_from(self, offset: int) -> None:
        """What is before it is about to go."""
        self._fate.look()
        self._deleted |= _by_offset([each for each in self._source.log if each.header.base_offset < offset])

    def differs(self, stored: Stored) -> str:
        """What of a target's batch is not the source's, as it is or was; empty if all is."""
        return self._differs(stored, self._now_or_before, self._fate.ever)

    def differs_now(self, stored: Stored) -> str:
        """What of it is not the source's as it is."""
        return self._differs(stored, self._now, lambda offset: {self._fate.now(offset)})

    def _differs(self, stored: Stored, known: Known, fates: Fates) -> str:
        self._fate.look()
        header = stored.header
        if header.is_control:
            return self._marks_more(range(header.base_offset, header.next_offset), fates)
        for offset in range(header.base_offset, header.next_offset):
            if True not in fates(offset):
                why = "none is to be copied" if False in fates(offset) else "nothing is decided"
                return f"holds a record at {offset}, where {why}"
        return _differs_in_records(stored, known)

    def _marks_more(self, offsets: range, fates: Fates) -> str:
        for offset in offsets:
            gone = offset < self._source.start
            # What was gone once may be there again in a source that was recreated since.
            lost = offset in self.told_lost and (gone or fates == self._fate.ever)
            if False not in fates(offset) and not lost:
                why = "the source has a record" if True in fates(offset) else "nothing is decided"
                return f"is a marker at {offset}, where {'nobody told of a loss' if gone else why}"
        return ""

    def _now(self, offset: int) -> list[Stored]:
        gone = offset < self._source.start
        batch = self._deleted.get(offset) if gone else self._source.holding(offset)
        return [] if batch is None else [batch]

    def _now_or_before(self, offset: int) -> list[Stored]:
        found = self._now(offset)
        if self.changed_at is not None and offset >= self.changed_at and offset in self._former:
            found.append(self._former[offset])
        return found


def _differs_in_records(stored: Stored, known: Known) -> str:
    first = stored.header.base_offset
    for batch in known(first):
        if _same_batch(stored, batch):
            return ""
    try:
        records = records_of(stored.data)
    except Unreadable as why:
        return f"holds records that cannot be read: {why}"
    for nth, record in enumerate(records):
        offset = first + nth
        if record.offset_delta != nth:
            return f"numbers the record at {offset} as {first + record.offset_delta}"
        there = [batch for batch in known(offset) if holds(batch, offset, record)]
        if not there:
            return f"holds other records than the source at {offset}"
        if all(batch.header.codec is not stored.header.codec for batch in there):
            return f"has {stored.header.codec.name} where the source has {there[0].header.codec.name}, at {offset}"
    return "" if first + len(records) == stored.header.next_offset else "has fewer records than offsets"


def _by_offset(log: Sequence[Stored]) -> dict[int, Stored]:
    return {
        offset: stored
        for stored in log
        for offset in range(stored.header.base_offset, stored.header.next_offset)
    }


def _same_batch(stored: Stored, batch: Stored) -> bool:
    """To the byte: then nobody need read its records."""
    return stored.header.base_offset == batch.header.base_offset and payload_equal(
        memoryview(stored.data), memoryview(batch.data)
    )


def holds(batch: Stored, offset: int, record: SeenRecord) -> bool:
    """Whether the source's batch holds this record there."""
    delta = offset - batch.header.base_offset
    there = next((each for each in records_of(batch.data) if each.offset_delta == delta), None)
    if there is not None and batch.header.is_log_append_time:
        there = there._replace(timestamp=batch.header.max_timestamp)
    return there is not None and there[1:] == record[1:]
