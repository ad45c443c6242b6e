"""When all that may still be on its way to a partition is over. No I/O; `now` is an argument.

An append without an answer may execute for as long as `flight_s`. Where the broker cannot compare (perishable batches),
nothing may follow before that: neither behind the last holder's appends nor behind our own that were lost.
"""

from __future__ import annotations

import math

CLEAR = -math.inf


class Clearance:
    """`over_at`: when the last holder's appends are over; CLEAR where there can be none. `of_markers`: no marker can be
    on its way, of the last holder or of ours."""

    def __init__(self, over_at: float, flight_s: float) -> None:
        self.over_at = over_at
        self.clear = self.of_markers = over_at == CLEAR
        self._flight_s = flight_s

    def lost(self, now: float, *, marker: bool = False) -> None:
        """An append of ours has no answer, and will get none: it may be on its way for a while from now on."""
        self.clear = False
        self.of_markers = self.of_markers and not marker
        self.over_at = max(self.over_at, now + self._flight_s)

    def passed(self, now: float) -> bool:
        """Whether all that was on its way is over by now, and was not before."""
        if self.clear or not self.is_over(now):
            return False
        self.clear = self.of_markers = True
        return True

    def is_over(self, now: float) -> bool:
        return self.clear or now >= self.over_at
