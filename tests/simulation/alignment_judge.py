"""Judges how a new target partition is brought to the offset at which the source's log starts.

Fillers are records without key, value and headers. They may stand only where the source has nothing any more, below its
log start, and only in a log that holds none of its records; they must be deleted before the first of those is appended.
Nothing that the source still has may be deleted.
"""

from __future__ import annotations

from .record_reader import Unreadable, records_of
from .replica import Replica, Stored
from .source_log import SourceLog


class AlignmentJudge:
    """Its verdicts are words; empty: all is right."""

    def __init__(self, source: SourceLog) -> None:
        self._source = source
        self._highest = (
            source.start
        )  # that the source's start ever was: one that is recreated starts at 0 again

    @property
    def _start(self) -> int:
        self._highest = max(self._highest, self._source.start)
        return self._highest

    @property
    def concerned(self) -> bool:
        return self._start > 0

    def is_filler(self, stored: Stored) -> bool:
        """One that may be there: the source's log starts behind it."""
        return is_empty(stored) and stored.header.next_offset <= self._start

    def filled(self, replica: Replica, filler: Stored) -> str:
        """It was appended there."""
        for stored in replica.batches:
            if stored is not filler and not stored.header.is_control and not is_empty(stored):
                return f"fills [{filler.header.base_offset}, {filler.header.next_offset}) though the log holds records"
        return ""

    def copied(self, replica: Replica, stored: Stored) -> str:
        """A batch of the source's records was appended there."""
        readable = [each for each in replica.batches if each is not stored and self.is_filler(each)]
        if readable:
            end = readable[-1].header.next_offset
            return f"is appended while fillers can be read below {end}: the log starts at {replica.start}"
        return ""

    def deleted(self, before_offset: int) -> str:
        if before_offset > self._start:
            return (
                f"deletes the records below {before_offset} though the source has those from {self._start} on"
            )
        return ""


def is_empty(stored: Stored) -> bool:
    """Whether its records hold nothing but their offsets."""
    if stored.header.is_control:
        return False
    try:
        records = records_of(stored.data)
    except Unreadable:
        return False
    return all(each.key is None and each.value is None and not each.headers for each in records)
