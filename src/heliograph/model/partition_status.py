"""How one partition stands: one value for lanes, the board, the live socket and `status`, and its only encoder.

    lane ── row ──▶ board ── document ──▶ live socket ──▶ `status` ── published ──▶ heliograph.status/1

Whoever says how a partition stands fills in what it knows; the rest keeps its default. Must not know who asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from heliograph.model.events import Event
from heliograph.model.partition import MirrorPartition
from heliograph.model.states import BoundBy, PartitionState, StopReason

Document = dict[str, Any]


class Aligning(NamedTuple):
    """How far a partition is that is being aligned. `replicas_clean`: how many replicas hold no filler any more."""

    phase: str
    done: int
    total: int
    eta_s: float | None = None
    replicas_clean: int | None = None


class PartitionStatus(NamedTuple):
    """A tuple: lanes make one for each copy that moved, five times a second. A frozen dataclass takes three times as
    long.

    `trouble`: what a copy recovers from by itself right now, `event` its code. `error` and `hint`: why it is
    stopped, `reason` its code. `bound_by`: what the copy waits for, while it waits.

    `records`, `size_bytes`: copied. A lane counts from when it was given the partition, the board for the whole run. A
    lane that is killed has copied a little more than it told: offsets say how far a copy is, not how many records.

    `filled`: offsets of gaps, by its lane since it was given the partition; `filling_s`: the seconds that its lane has
    filled gaps of the link meanwhile, told with one of the partitions if it was several at a time.

    `lane` None: on no lane now. `goal`: the source's end when the run began, None where it could not be read.
    `held_by`: which other run keeps this one from copying it, in words. `refused`: stopped by a plan, and not by what a
    lane met.

    `compared`: a lane has compared the target's last batch with the source's since the link was adopted. Until then
    `next_offset` is the plan's: a number, which a source that was recreated with other records may have reached, too.
    """

    partition: MirrorPartition
    # a lane knows
    state: PartitionState = PartitionState.UNKNOWN
    next_offset: int | None = None
    source_end: int | None = None
    records: int = 0
    size_bytes: int = 0
    reason: StopReason | None = None
    error: str | None = None
    hint: str | None = None
    trouble: str | None = None
    event: Event | None = None
    bound_by: BoundBy | None = None
    aligning: Aligning | None = None
    filled: int = 0
    filling_s: float = 0.0
    # the driver adds
    lane: int | None = None
    goal: int | None = None
    held_by: str | None = None
    refused: bool = False
    compared: bool = False
    # both clusters show
    source_start: int | None = None
    target_end: int | None = None
    lag_ms: int | None = None

    @property
    def behind(self) -> int:
        """What is known to be left to copy."""
        return max((self.source_end or 0) - (self.next_offset or 0), 0)

    @property
    def lag_records(self) -> int | None:
        """None: one of the two ends is not known."""
        return None if self.source_end is None or self.next_offset is None else self.behind

    @property
    def awaits_topic(self) -> bool:
        """An operator has to create its target topic; no lane gets it before."""
        return self.event is Event.TOPIC_MISSING

    @property
    def reached_goal(self) -> bool:
        if self.goal is None:
            return self.state is PartitionState.CAUGHT_UP
        return self.compared and (self.next_offset or 0) >= self.goal

    @property
    def problem(self) -> str | None:
        """What an operator reads first: why it stopped, who holds it, or what it recovers from."""
        held = (
            f"it is held by {self.held_by}; this run takes it over when that one ends"
            if self.held_by
            else None
        )
        return self.error or held or self.trouble


_FIELDS = PartitionStatus._fields
_LANES_FIELDS = _FIELDS.index("lane")  # how many come first
_TYPES = {
    "partition": MirrorPartition._make,
    "state": PartitionState,
    "reason": StopReason,
    "event": Event,
    "bound_by": BoundBy,
    "aligning": Aligning._make,
}
_TYPED = tuple((_FIELDS.index(name), typed) for name, typed in _TYPES.items())


def encode_row(status: PartitionStatus) -> list[Any]:
    """What a lane knows of it, as JSON takes it."""
    return list(status[:_LANES_FIELDS])


def decode_row(row: Sequence[Any]) -> PartitionStatus:
    if len(row) != _LANES_FIELDS:
        raise ValueError(f"a row of {len(row)} values, not {_LANES_FIELDS}")
    return _decoded(list(row))


def encode_document(status: PartitionStatus) -> Document:
    """All that is known of it."""
    return {"key": status.partition, **dict(zip(_FIELDS[1:], status[1:], strict=True))}


def decode_document(document: Mapping[str, Any]) -> PartitionStatus:
    """Of a mirror that says less, of the version before for example, what is missing is not known."""
    defaults = PartitionStatus._field_defaults
    return _decoded([document["key"], *(document.get(name, defaults[name]) for name in _FIELDS[1:])])


def _decoded(values: list[Any]) -> PartitionStatus:
    for at, typed in _TYPED:
        if values[at] is not None:
            values[at] = typed(values[at])
    return PartitionStatus(*values)


def published(status: PartitionStatus) -> Document:
    """As `heliograph.status/1` has it: plain values, which YAML takes, too."""
    where = status.partition
    return {
        "source_topic": where.source_topic,
        "target_topic": where.target_topic,
        "partition": where.partition,
        "state": str(status.state),
        "source_start": status.source_start,
        "source_end": status.source_end,
        "next_offset": status.next_offset,
        "target_end": status.target_end,
        "lag_records": status.lag_records,
        "lag_ms": status.lag_ms,
        "offsets": "identical",
        "lane": status.lane,
        "error": status.problem,
        "hint": status.hint,
        "aligning": status.aligning._asdict() if status.aligning else None,
    }
