"""What an operator who follows events is told of a cluster that is away: once when it lasts, once when it is back.

Pure; the time is an argument.
"""

from __future__ import annotations

AWAY_S = 5.0  # a leader is elected in less: that is no news


class Absence:
    """Of one cluster."""

    def __init__(self, name: str, now: float) -> None:
        self._name = name
        self._here_at = now
        self._told = False

    def is_asked(self, now: float) -> None:
        """It may be long since it was asked last: what it does from now on counts."""
        self._here_at = now

    def is_here(self, now: float) -> str | None:
        """It has answered. What to tell, if there is anything."""
        self._here_at = now
        was_told, self._told = self._told, False
        return f"cluster {self._name!r} is back: its events are followed again" if was_told else None

    def is_away(self, problem: str, now: float) -> str | None:
        """It has failed. What to tell, if there is anything."""
        return None if self.lasts_s(now) < AWAY_S else self.is_given_up(problem)

    def is_given_up(self, problem: str) -> str | None:
        """However short it lasts: nobody waits for it now."""
        was_told, self._told = self._told, True
        return None if was_told else f"warning: {problem}; it is tried again"

    def lasts_s(self, now: float) -> float:
        return now - self._here_at
