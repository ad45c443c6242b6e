"""Of one replica's transactions: up to where all are decided, and which were aborted.

    log        a a b b a A b B      small letters: records of transactions a and b; capital: what ends one
    open       a at 0, b at 2       held by the producer state; the oldest one is where the stable part ends
    decided    a: 0 to 5            its marker may not be on all replicas yet: as undecided as before
    aborted    a, 0, 5, stable 2    the index that fetches are answered from, in the order of the markers

Must not know batches: what is in them is producer_states.py's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from .producer_states import Ended, ProducerStates


class Aborted(NamedTuple):
    """`stable_offset`: where the oldest transaction of somebody else began that was open when this one ended, or
    behind its marker. A search that gets there is over."""

    producer_id: int
    first_offset: int
    marker_offset: int
    stable_offset: int


@dataclass(slots=True)
class Transactions:
    aborted: list[Aborted] = field(default_factory=list)
    decided: list[Ended] = field(default_factory=list)

    def ended(self, one: Ended, producers: ProducerStates) -> None:
        self.decided.append(one)
        if not one.commits:
            stable = min(producers.open_at.values(), default=one.marker_offset + 1)
            self.aborted.append(Aborted(one.producer_id, one.first_offset, one.marker_offset, stable))

    def truncate(self, end: int) -> None:
        """To where the log ends now. What is decided there is on all replicas, as brokers take it."""
        self.aborted = [each for each in self.aborted if each.marker_offset < end]
        self.decided = []

    def first_undecided(self, producers: ProducerStates, high_watermark: int) -> int | None:
        if self.decided and self.decided[0].marker_offset < high_watermark:
            self.decided = [each for each in self.decided if each.marker_offset >= high_watermark]
        open_at = producers.open_at
        if not open_at and not self.decided:
            return None
        return min([*open_at.values(), *(each.first_offset for each in self.decided)])

    def aborted_in(self, first_offset: int, bound: int) -> tuple[tuple[int, int], ...]:
        """As the index is searched: in the order of the markers, until one says that no more can come."""
        found = []
        for each in self.aborted:
            if each.marker_offset >= first_offset and each.first_offset < bound:
                found.append((each.producer_id, each.first_offset))
            if each.stable_offset >= bound:
                break
        return tuple(found)
