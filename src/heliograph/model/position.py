"""Where a copy goes on: one value for what three logs and counters say.

    source    the next source offset to copy
    target    the target offset at which it must land; with identical offsets the same number
    sequence  the sequence number of its first record, which the target's broker compares (P2)

They grow apart: fillers take target offsets without being records of the source, translated offsets take none for a
gap. Nobody else may compute one of the three from another.
"""

from __future__ import annotations

from typing import NamedTuple

SEQUENCES = 1 << 31  # the protocol's sequence numbers wrap to 0 here


def next_sequence(last_sequence: int) -> int:
    return (last_sequence + 1) % SEQUENCES


class Position(NamedTuple):
    """A tuple, because one is made for every batch."""

    source: int
    target: int
    sequence: int

    def after(self, *, source_offsets: int, records: int) -> Position:
        """Behind an append of so many records, which stand for so many offsets of the source."""
        source, target, sequence = self
        return Position(source + source_offsets, target + records, (sequence + records) % SEQUENCES)

    def past_gap(self, offsets: int) -> Position:
        """Behind a gap of the source that was filled: markers have offsets, and no sequence numbers of ours."""
        source, target, sequence = self
        return Position(source + offsets, target + offsets, sequence)
