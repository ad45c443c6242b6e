"""What a resynchronisation asks, as values. Who asks (copier/resync.py and its parts) has no I/O;
copier/resynchroniser.py performs the questions."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from heliograph.cluster.empty_transactions import FillProducer
from heliograph.cluster.list_offsets import DatedRecord
from heliograph.cluster.log_reads import Batches, LogSpan
from heliograph.cluster.producer_states import ProducerState
from heliograph.copier.ports import Batch


@dataclass(frozen=True, slots=True)
class ReadProducers:
    """Answer: Mapping[int, ProducerState], all that the target's leader remembers."""


@dataclass(frozen=True, slots=True)
class ReadTargetLog:
    """Answer: LogSpan."""


@dataclass(frozen=True, slots=True)
class ReadSourceLog:
    """Answer: LogSpan."""


@dataclass(frozen=True, slots=True)
class ReadTargetBatches:
    """Answer: Batches, all that hold offsets in [first_offset, next_offset)."""

    first_offset: int
    next_offset: int


@dataclass(frozen=True, slots=True)
class ReadTargetSince:
    """Answer: a DatedRecord of the target that is younger than this, by our clock, the one with the lowest offset;
    None: there is none."""

    age_ms: int


@dataclass(frozen=True, slots=True)
class ReadTargetSegmentEnd:
    """Answer: where the target's segment ends that holds the offset; of the one that is written, the log's end."""

    offset: int


@dataclass(frozen=True, slots=True)
class ReadSourceBatch:
    """Answer: the batch that holds the offset, or None."""

    offset: int


@dataclass(frozen=True, slots=True)
class ReadSourceBatches:
    """Answer: Batches, all that hold records in [first_offset, next_offset)."""

    first_offset: int
    next_offset: int


@dataclass(frozen=True, slots=True)
class ReadSourceGap:
    """Answer: Batches, all in [first_offset, next_offset). `committed`: up to the last stable offset, with what was
    aborted."""

    first_offset: int
    next_offset: int
    committed: bool


@dataclass(frozen=True, slots=True)
class FenceFills:
    """Others are to be kept from filling gaps with empty transactions, and what they have begun is to be over. The one
    question that changes something; to ask it again does no harm. Answer: FillProducer; None where this copy needs
    none and may not have one."""


@dataclass(frozen=True, slots=True)
class LoadKernels:
    """Records are about to be looked at: what does that must be loaded. Answer: None."""


@dataclass(frozen=True, slots=True)
class Unsettled:
    """Others are writing, or the last records are not yet on all replicas: wait a little. Answer: None."""


@dataclass(frozen=True, slots=True)
class AwaitTime:
    """The record is too young: wait a little. Answer: False, at once, if it is dated further ahead than this."""

    record: DatedRecord
    most_ahead_ms: int


Question = (
    ReadProducers
    | ReadTargetLog
    | ReadSourceLog
    | ReadTargetBatches
    | ReadTargetSince
    | ReadTargetSegmentEnd
    | ReadSourceBatch
    | ReadSourceBatches
    | ReadSourceGap
    | FenceFills
    | LoadKernels
    | Unsettled
    | AwaitTime
)
Answer = Mapping[int, ProducerState] | LogSpan | Batch | Batches | DatedRecord | FillProducer | int | None
OF_SOURCE = (ReadSourceLog, ReadSourceBatch, ReadSourceBatches, ReadSourceGap)

T = TypeVar("T")
Asking = Generator[Question, Answer, T]
