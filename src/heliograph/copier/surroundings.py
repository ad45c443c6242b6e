"""What a lane takes from outside beside its ports: the time of day, and chance. The simulation gives others."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """`wall_ms`: the time of day, by which records are old. `uniform(a, b)`: any number between, so that retries of
    many do not come together."""

    wall_ms: Callable[[], int] = _wall_ms
    uniform: Callable[[float, float], float] = random.uniform
