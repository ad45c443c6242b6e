"""What operators are told of records that do not arrive as they are at the source: left out, or with another time.

Owns the words, and what was told already. A record that is left out is told before a marker takes its offset, once by
each copy that meets it, as losses are (copier/losses.py). Times are counted: told at once when the first is changed,
and then every few seconds how many there were. Must not know why batches are recoded.
"""

from __future__ import annotations

from heliograph.copier.recoding import Changed
from heliograph.model.events import Event, Trouble
from heliograph.wire.recode import TooLarge

TOLD_EVERY_MS = 10_000
KEY_BYTES = 64  # of a key that is shown


class Changes:
    """Of one partition."""

    def __init__(self) -> None:
        self._skipped_to = 0  # offsets below were told
        self._counted_to = 0  # times of offsets below were counted
        self._clamped = 0  # not told yet,
        self._first_offset = self._next_offset = 0  # of these offsets
        self._told_ms: int | None = None

    def skipped(self, changed: Changed) -> Trouble | None:
        """What is to be told of a record that is left out; None: it was."""
        record = changed.skipped
        if record is None or record.first_offset < self._skipped_to:
            return None
        self._skipped_to = record.next_offset
        return Trouble(
            Event.RECORD_SKIPPED,
            f"the record at source offset {record.first_offset} makes a batch of {record.size_bytes} bytes, more than"
            f" the target takes, and is left out (oversize: skip); a marker takes its place on the target; its key:"
            f" {_shown(record)}",
            record.first_offset,
            record.next_offset,
        )

    def clamped(self, changed: Changed, now_ms: int) -> Trouble | None:
        """Count them, unless they were, before a resynchronisation; what is to be told now."""
        if not changed.clamped or changed.next_offset <= self._counted_to:
            return None
        self._counted_to = changed.next_offset
        if not self._clamped:
            self._first_offset = changed.first_offset
        self._next_offset = changed.next_offset
        self._clamped += changed.clamped
        due = self._told_ms is None or now_ms - self._told_ms >= TOLD_EVERY_MS
        return self.rest(now_ms) if due else None

    def rest(self, now_ms: int) -> Trouble | None:
        """What was counted and is not told yet."""
        if not self._clamped:
            return None
        count, self._clamped, self._told_ms = self._clamped, 0, now_ms
        return Trouble(
            Event.TIMES_CLAMPED,
            f"{count} records of source offsets [{self._first_offset}, {self._next_offset}) have a time that the target"
            " does not take: they are copied with the nearest that it takes (timestamps: clamp)",
            self._first_offset,
            self._next_offset,
        )


def _shown(record: TooLarge) -> str:
    if record.key is None:
        return "none"
    more = f" and {len(record.key) - KEY_BYTES} bytes more" if len(record.key) > KEY_BYTES else ""
    return f"{record.key[:KEY_BYTES]!r}{more}"
