"""What a copy waits for, as reports say it: who is to take what it holds, and until when a quota lasts. No I/O."""

from __future__ import annotations

import math
from typing import Protocol

from heliograph.model.states import BoundBy


class Outlet(Protocol):
    """Who sends what a copy holds."""

    @property
    def awaits_broker(self) -> bool: ...


class Waits:
    def __init__(self) -> None:
        self.outlet: Outlet | None = None
        self._throttled_until = -math.inf

    def throttled(self, until: float) -> bool:
        """The broker that it reads from, or appends to, listens to nobody before that. Whether this is news."""
        news = until > self._throttled_until
        self._throttled_until = max(self._throttled_until, until)
        return news

    def bound_by(self, now: float, *, answers_due: bool, holds: bool) -> BoundBy:
        """`answers_due`: of the target, or memory that its broker pins. `holds`: something waits to be taken."""
        if now < self._throttled_until:
            return BoundBy.QUOTA
        if answers_due:
            return BoundBy.TARGET
        if not holds:
            return BoundBy.SOURCE
        # Behind others' appends, maybe of partitions that were taken from the lane meanwhile.
        behind_others = self.outlet is not None and self.outlet.awaits_broker
        return BoundBy.TARGET if behind_others else BoundBy.LANE
