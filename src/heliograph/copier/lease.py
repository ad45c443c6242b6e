"""A lane's time-bound right to append, by a clock that goes on while the machine sleeps, and that counts a jump of the
time of day as time that has passed (model/clock.py): also one between the heartbeat and its answer.

The driver answers a lane's heartbeat with how long its own right lasts. The lane counts that from the moment it *sent*
the heartbeat, so that its lease never outlives the driver's, however long the answer was on its way.

    heartbeat (at) ──▶ driver ──▶ lasts_s      until = at + lasts_s

`exclusive`: nobody else can hold it. Appends that the broker cannot compare (records older than what it remembers) are
made under it only, and it is looked at right before their last byte leaves. `alive`: the driver was heard of not long
ago, and had the right then; the broker compares every other append, so those go on while a driver is frozen a while.
"""

from __future__ import annotations

import math

from heliograph.model.clock import Clock, clock_of_suspended_time

ALIVE_S = 30.0


class Lease:
    def __init__(self, clock: Clock = clock_of_suspended_time) -> None:
        self._clock = clock
        self._until = -math.inf
        self._alive_until = -math.inf  # nothing is sent before the driver's first word
        self._missed_at: dict[bool, float] = {}  # since when an exclusive one, or any, was needed in vain

    @classmethod
    def unlimited(cls) -> Lease:
        """For a lane that has no driver, and no rival."""
        lease = cls(lambda: 0.0)
        lease.renew(0.0, math.inf)
        return lease

    def renew(self, asked_at: float, lasts_s: float) -> None:
        """The driver's answer to what was asked then; an answer that comes late, or twice, shortens nothing."""
        if lasts_s > 0:
            self._until = max(self._until, asked_at + lasts_s)
            self._missed_at.pop(True, None)
        self._alive_until = max(self._alive_until, asked_at + ALIVE_S)
        self._missed_at.pop(False, None)

    def missed_s(self, *, exclusive: bool) -> float:
        """To be asked when it is needed in vain: for how long that has been so. It takes a heartbeat to get one, and
        one that nobody needed before was not missed."""
        now = self._clock()
        return now - self._missed_at.setdefault(exclusive, now)

    @property
    def exclusive(self) -> bool:
        return self._clock() < self._until

    @property
    def alive(self) -> bool:
        return self._clock() < self._alive_until
