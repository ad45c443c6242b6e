"""What Heliograph tells an operator of, each under a stable code (docs/EVENTS.md; a test compares).

A partition that stops tells its `StopReason` (model/states.py). The events here are of a partition that recovers by
itself, and of the run as a whole.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from heliograph.model.states import StopReason


class Event(StrEnum):
    # a partition goes on by itself
    RACED = "raced"
    BROKER_AWAY = "broker_away"
    LEADER_MOVED = "leader_moved"
    APPEND_REFUSED = "append_refused"
    GAP_UNFILLED = "gap_unfilled"
    FETCH_REFUSED = "fetch_refused"
    UNSETTLED = "unsettled"
    TARGET_TRUNCATED = "target_truncated"
    LOSS_ACCEPTED = "loss_accepted"
    RECORD_SKIPPED = "record_skipped"
    TIMES_CLAMPED = "times_clamped"
    SOURCE_DIVERGED = "source_diverged"
    TRANSACTION_OPEN = "transaction_open"
    LEASE_WAIT = "lease_wait"
    TIME_WAIT = "time_wait"
    CONFIGS_UNREAD = "configs_unread"
    # the run
    ACTIVE = "active"
    STANDBY = "standby"
    OTHER_CONFIG = "other_config"
    ELECTION = "election"
    LANE_UP = "lane_up"
    LANE_GONE = "lane_gone"
    LANE_HUNG = "lane_hung"
    LANE_UNFIT = "lane_unfit"
    LANE_LEAVING = "lane_leaving"
    NOT_MERGED = "not_merged"
    FEW_LANES = "few_lanes"
    SPARK_OPEN = "spark_open"
    SPARK_ERROR = "spark_error"
    SPARK_ARCHIVE = "spark_archive"
    TOPIC_CREATED = "topic_created"
    TOPIC_FILLED = "topic_filled"
    NOT_CLEANED = "not_cleaned"
    TOPIC_BUILT = "topic_built"
    TOPIC_MISSING = "topic_missing"
    TOPIC_GONE = "topic_gone"
    TOPIC_DELETED = "topic_deleted"
    DELETION_HELD = "deletion_held"
    PARTITIONS_ADDED = "partitions_added"
    CONFIGS_CHANGED = "configs_changed"
    CONFIGS_REFUSED = "configs_refused"
    CONFIGS_DRIFT = "configs_drift"
    CLUSTER_AWAY = "cluster_away"
    CLUSTER_BACK = "cluster_back"
    LINK_OUT = "link_out"
    ACCESS_REFUSED = "access_refused"
    CONFIG_CHANGED = "config_changed"
    CONFIG_REFUSED = "config_refused"
    RESTART_NEEDED = "restart_needed"
    SECRET_CHANGED = "secret_changed"
    SECRET_REFUSED = "secret_refused"
    PLAN_WARNING = "plan_warning"
    INSECURE = "insecure"
    CONTROL_LINE = "control_line"
    STOOD_STILL = "stood_still"
    NOT_DRAINED = "not_drained"
    NO_STATUS = "no_status"
    NO_LEDGER = "no_ledger"
    EVENTS_LEFT_OUT = "events_left_out"
    # what operators asked for
    COMMAND = "command"
    PAUSED = "paused"
    RESUMED = "resumed"
    REMIRRORED = "remirrored"


Code = Event | StopReason


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


_FOR_INFORMATION = frozenset(
    {
        Event.ACTIVE,
        Event.STANDBY,
        Event.LANE_UP,
        Event.TOPIC_CREATED,
        Event.TOPIC_FILLED,
        Event.TOPIC_BUILT,
        Event.PARTITIONS_ADDED,
        Event.CONFIGS_CHANGED,
        Event.CLUSTER_BACK,
        Event.CONFIG_CHANGED,
        Event.SECRET_CHANGED,
        Event.COMMAND,
        Event.PAUSED,
        Event.RESUMED,
    }
)
_ERRORS = frozenset({Event.ACCESS_REFUSED, Event.LANE_UNFIT, Event.SPARK_ERROR})


def severity_of(code: Code) -> Severity:
    """A partition that stops is an error; most of what goes on by itself is worth a warning."""
    if isinstance(code, StopReason) or code in _ERRORS:
        return Severity.ERROR
    return Severity.INFO if code in _FOR_INFORMATION else Severity.WARNING


class Trouble(NamedTuple):
    """What a copy recovers from right now. `first_offset`, `next_offset`: the offsets that it is about, as a half-open
    range; None where one is not known, or it is about none."""

    event: Event
    message: str
    first_offset: int | None = None
    next_offset: int | None = None
    hint: str | None = None
