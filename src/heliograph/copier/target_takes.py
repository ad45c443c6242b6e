"""What a target topic takes: how large a batch, and records of which times. Pure.

Owns how the topic's configs are read and what follows from them for a batch. They are read when a partition is planned
and again every few seconds (copier/target_configs.py); what a broker refuses corrects what was read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from heliograph.wire.batch import BatchHeader
from heliograph.wire.recode import ANY_TIME, Times

AFTER_MAX, BEFORE_MAX = "message.timestamp.after.max.ms", "message.timestamp.before.max.ms"
DIFFERENCE_MAX = "message.timestamp.difference.max.ms"  # of brokers before 3.6: for both
TIME_LIMITS = (AFTER_MAX, BEFORE_MAX, DIFFERENCE_MAX)
NO_TIME_LIMIT = (1 << 63) - 1
# The broker's clock decides, and a batch may wait in the lane: what is clamped keeps this distance from the limit, or
# half of it where the limit is shorter.
CLOCKS_DIFFER_MS = 60_000
_NO_TIME = -1


def time_limits(configs: Mapping[str, str]) -> tuple[int, int]:
    """How far a record's time may be ahead of the broker's, and behind it. Brokers that know both the old config and
    the new ones take the new ones where they are set, and else the old one."""
    difference = int(configs.get(DIFFERENCE_MAX, NO_TIME_LIMIT))
    after, before = (min(int(configs.get(key, NO_TIME_LIMIT)), difference) for key in (AFTER_MAX, BEFORE_MAX))
    return after, before


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTakes:
    """`most_bytes`: of one batch, as far as is known for sure. `batch_bytes`: what batches are kept to: less, where one
    was refused that was thought to be small enough, and the config is not read again yet. A single record may be larger
    than that. `times`: what records' times are brought to; all of them are allowed where they are not to be changed.
    `looks`: a batch was refused for a time that no header shows: the records of all are looked at."""

    batch_bytes: int
    most_bytes: int
    times: Times = ANY_TIME
    looks: bool = False

    def clamps(self, header: BatchHeader) -> bool:
        """Whether a batch may hold a record whose time is to be changed."""
        times = self.times
        if times is ANY_TIME or times == ANY_TIME:
            return False
        too_old = header.max_timestamp < times.earliest and header.max_timestamp != _NO_TIME
        return self.looks or header.max_timestamp > times.latest or too_old


def allowed_times(after_ms: int, before_ms: int, now_ms: int) -> Times:
    """What a broker takes now, with a distance."""

    def nearer(limit_ms: int) -> int:
        return limit_ms - min(CLOCKS_DIFFER_MS, limit_ms // 2)

    return Times(
        earliest=ANY_TIME.earliest if before_ms >= now_ms else now_ms - nearer(before_ms),
        latest=ANY_TIME.latest if after_ms >= NO_TIME_LIMIT - now_ms else now_ms + nearer(after_ms),
    )
