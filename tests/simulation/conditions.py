"""What is special about the world of a plan, and what is demanded of it beyond the promises; mostly nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass

from heliograph.copier.resynchroniser import QUESTIONS_AT_ONCE

from .raw_batch import DAY_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """`throttles_s`: what a quota's answers say. `frozen_s`: how long a broker is. `gone_s`: how long a topic is
    that is recreated. `down_s`: how long a broker is that restarts, and `unaware_s` how long it then knows no topic.
    `replicas`: of a target partition at most. `has_ids`: whether metadata tells topics' ids, as Kafka does since 2.8.
    `lane_clock_ms`: how far the lanes' time of day is ahead."""

    lane_memory_bytes: int = 1 << 20
    questions_at_once: int = QUESTIONS_AT_ONCE
    throttles_s: tuple[float, float] = (0.1, 5.0)
    frozen_s: tuple[float, float] = (1.0, 12.0)
    gone_s: tuple[float, float] = (0.0, 10.0)
    down_s: tuple[float, float] = (4.0, 15.0)
    unaware_s: tuple[float, float] = (0.0, 0.0)
    replicas: int = 3
    has_ids: bool = True
    state_lasts_ms: int = DAY_MS
    lane_clock_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """`stands_s`: how long a partition may stand still though the brokers that lead it are well, from `from_s` on.
    `interruptions`: how often at most a copier may have to ask the target again where it stands. `rivals`: who meets
    somebody else's append of old records must stop."""

    stands_s: float = math.inf
    from_s: float = 0.0
    interruptions: float = math.inf
    rivals: bool = False


ORDINARY = Conditions()
UNBOUND = Bounds()
