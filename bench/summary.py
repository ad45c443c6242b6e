"""Medians and spreads of what the rounds gave. Pure; knows no contender and no table."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The middle of some rounds and how far they lie apart: `spread` is (highest - lowest) / median."""

    median: float
    lowest: float
    highest: float
    rounds: int

    @property
    def spread(self) -> float:
        return (self.highest - self.lowest) / self.median if self.median else 0.0


def summarise(values: Sequence[float]) -> Summary:
    return Summary(
        median=statistics.median(values), lowest=min(values), highest=max(values), rounds=len(values)
    )


def ratio(of: Summary | None, to: Summary | None) -> float | None:
    """How many times the second median the first is; None when one of them was not measured or is 0."""
    if of is None or to is None or not to.median:
        return None
    return of.median / to.median
