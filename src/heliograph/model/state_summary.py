"""How many partitions are in which state, and how far behind they are: what is said of many before any single one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from heliograph.model.states import ATTENTION, PartitionState


def summarise(rows: Iterable[tuple[PartitionState, int | None]]) -> list[dict[str, Any]]:
    """State and lag of each partition, counted by state; states that most need attention come first. `lag_records` is
    None where that of one partition is not known."""
    lags: defaultdict[PartitionState, list[int | None]] = defaultdict(list)
    for state, lag in rows:
        lags[state].append(lag)
    return [
        {"state": str(state), "partitions": len(lags[state]), "lag_records": lag_of(lags[state])}
        for state in ATTENTION
        if state in lags
    ]


def lag_of(lags: Iterable[int | None]) -> int | None:
    """Of several partitions together; None: of one it is not known."""
    total = 0
    for lag in lags:
        if lag is None:
            return None
        total += lag
    return total
