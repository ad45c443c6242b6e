"""How long each step of a run's start took, counted from the start of the process, told once.

connect ─▶ plan ─▶ elect ─┐
    └────▶ Spark's JVM ───┴─▶ first lane ─▶ first record
"""

from __future__ import annotations

import logging
from enum import StrEnum

from heliograph.model.clock import clock_of_waits

log = logging.getLogger("heliograph")


class Step(StrEnum):
    CONNECTED = "clusters connected"
    PLANNED = "planned"
    SPARK_UP = "Spark up"
    LANE_UP = "first lane up"
    FIRST_RECORD = "first record"


class StartTimes:
    """`age_s`: how old the process is already."""

    def __init__(self, age_s: float = 0.0) -> None:
        self._began_at = clock_of_waits() - age_s
        self.seconds: dict[Step, float] = {}

    @property
    def complete(self) -> bool:
        return Step.FIRST_RECORD in self.seconds

    def reached(self, step: Step) -> None:
        """Only the first time counts."""
        if step in self.seconds:
            return
        self.seconds[step] = clock_of_waits() - self._began_at
        if step in (Step.LANE_UP, Step.FIRST_RECORD):
            told = [step] if step is Step.FIRST_RECORD and Step.LANE_UP in self.seconds else self.seconds
            log.info("start: %s", ", ".join(f"{name} after {self.seconds[name]:.1f} s" for name in told))
