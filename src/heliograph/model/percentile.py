"""Percentiles of measured values. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of all values do not exceed (nearest rank)."""
    assert values
    assert 0 < percent <= 100
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]
