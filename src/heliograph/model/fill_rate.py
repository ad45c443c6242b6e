"""How fast the gaps of a link were filled, as it is measured, written down and shown."""

from __future__ import annotations

from typing import NamedTuple

from heliograph.model.fill_way import FillWay


class FillRate(NamedTuple):
    """Of a lane while it fills gaps. `at`: when it was written down, as ISO 8601 has it."""

    way: FillWay
    offsets_per_s: float
    at: str

    def __str__(self) -> str:
        return f"{self.offsets_per_s:,.0f} offsets/s measured on {self.at[:10]}"
