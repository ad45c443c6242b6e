"""The states of a mirrored partition, and why one stops.

    pending ──▶ aligning ──▶ copying ◀──▶ caught_up
       (no lane)    ▲  │        │             │
                    │  └────────┴─────┬───────┘
                    └── resynchronise ┘  any of them ──▶ stopped (an operator is needed)
                                         any of them ◀──▶ paused (an operator wants it)

`unknown` is what `status` says when no running mirror can be asked.
"""

from __future__ import annotations

from enum import StrEnum


class PartitionState(StrEnum):
    PENDING = "pending"
    ALIGNING = "aligning"
    COPYING = "copying"
    CAUGHT_UP = "caught_up"
    PAUSED = "paused"
    STOPPED = "stopped"
    UNKNOWN = "unknown"


# Of several partitions, the one that most needs an operator comes first.
ATTENTION = (
    PartitionState.STOPPED,
    PartitionState.UNKNOWN,
    PartitionState.PAUSED,
    PartitionState.PENDING,
    PartitionState.ALIGNING,
    PartitionState.COPYING,
    PartitionState.CAUGHT_UP,
)


class BuildPhase(StrEnum):
    """How far a compacted topic is that is built, and each partition of it while it is `aligning`
    (controller/build_settings.py). `searching` is for the source's last hole (copier/last_hole.py). `filled` is a
    partition that waits for the others of its topic."""

    SEARCHING = "searching"
    FILLING = "filling"
    FILLED = "filled"
    CLEANING = "cleaning"


class BoundBy(StrEnum):
    """What a copy waits for."""

    SOURCE = "source"
    TARGET = "target"
    LANE = "lane"
    QUOTA = "quota"


class StopReason(StrEnum):
    """Stable codes for why a partition stopped; the message and hint travel with the stop."""

    # the source holds something this version cannot copy
    LOG_APPEND_TIME = "log_append_time"
    HOLES = "holes"
    GAP = "gap"
    OLD_FORMAT = "old_format"
    LOG_START = "log_start"
    LOOP = "loop"
    CORRUPT = "corrupt"
    # the target will never take it as it is
    TOO_LARGE = "too_large"
    TIMESTAMP = "timestamp"
    REFUSED = "refused"
    # records are gone, or the logs are not what they were
    LOST = "lost"
    TARGET_AHEAD = "target_ahead"
    DIVERGED = "diverged"
    FOREIGN = "foreign"
    ANCHOR = "anchor"
    WRONG_PLACE = "wrong_place"
    RIVAL = "rival"
    SEQUENCE = "sequence"
    RECREATED = "recreated"
    # the topic may not be written at all
    PARTITIONS = "partitions"
    TOPIC_CONFIG = "topic_config"
    UNSUPPORTED = "unsupported"
    PREFLIGHT = "preflight"
    LEDGER = "ledger"
    BUILD = "build"
    # this machine lacks something
    KERNELS = "kernels"


# What every plan finds again as long as it is so, and nothing of when it is not: it is not written down.
CONDITIONS = frozenset(
    {
        StopReason.LOOP,
        StopReason.PARTITIONS,
        StopReason.TOPIC_CONFIG,
        StopReason.UNSUPPORTED,
        StopReason.PREFLIGHT,
        StopReason.LEDGER,
        StopReason.BUILD,
        StopReason.KERNELS,
    }
)


# What says that the target's records may be others than the source's at the same offsets.
OTHER_RECORDS = frozenset(
    {
        StopReason.TARGET_AHEAD,
        StopReason.DIVERGED,
        StopReason.FOREIGN,
        StopReason.ANCHOR,
        StopReason.WRONG_PLACE,
        StopReason.RIVAL,
        StopReason.SEQUENCE,
        StopReason.RECREATED,
    }
)


STANDING_BY = "standing by"  # the phase of a run that another one keeps from copying
