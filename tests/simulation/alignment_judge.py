"""Judges how a new target partition is brought to the offset at which its mirror begins: where the source's log starts,
or where it was told to begin, whichever is higher.

Fillers are records without key, value and headers. They may stand only below that, and only in a log that holds none of
the source's records; they must be deleted before the first of those is appended, which must not be below where the
mirror was told to begin. Nothing above it may be deleted.
"""

from __future__ import annotations

from collections.abc import Callable

from .record_reader import Unreadable, records_of
from .replica import Replica, Stored
from .source_log import SourceLog


class AlignmentJudge:
    """Its verdicts are words; empty: all is right. `begin_at`: where the mirror was told to begin; 0: nowhere."""

    def __init__(self, source: SourceLog, begin_at: Callable[[], int] = lambda: 0) -> None:
        self._source = source
        self._begin_at = begin_at
        self._highest = (
            source.start
        )  # that the source's start ever was: one that is recreated starts at 0 again

    @property
    def goal(self) -> int:
        self._highest = max(self._highest, self._source.start, self._begin_at())
        return self._highest

    @property
    def concerned(self) -> bool:
        return self.goal > 0

    def is_filler(self, stored: Stored) -> bool:
        """One that may be there: the mirror begins behind it."""
        return is_empty(stored) and stored.header.next_offset <= self.goal

    def filled(self, replica: Replica, filler: Stored) -> str:
        """It was appended there."""
        for stored in replica.batches:
            if stored is not filler and not stored.header.is_control and not is_empty(stored):
                return f"fills [{filler.header.base_offset}, {filler.header.next_offset}) though the log holds records"
        return ""

    def copied(self, replica: Replica, stored: Stored) -> str:
        """A batch of the source's records was appended there."""
        goal = self.goal
        for each in replica.batches:
            end = each.header.next_offset
            if end > goal:
                break
            if each is not stored and is_empty(each):
                return f"is appended while fillers can be read below {end}: the log starts at {replica.start}"
        if stored.header.base_offset < self._begin_at():
            return f"is appended though the mirror begins at {self._begin_at()}"
        return ""

    def deleted(self, before_offset: int) -> str:
        if before_offset > self.goal:
            return (
                f"deletes the records below {before_offset} though those from {self.goal} on are to be kept"
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
