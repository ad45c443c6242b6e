"""Resynchronise: learn from the target where the copy stands (P3). Sans I/O.

A generator: it yields questions, is sent the answers, and returns where the copy stands, or raises
`PartitionStop`. It has no side effects, so whoever asks may drop it at any failure and begin again.

    producer ─▶ target log ─▶ producer ─▶ source log ─▶ (admission) ─▶ target's last batch ─▶ the source's same
       ▲                          │ both readings must agree, and all of the log be readable
       └──────────────────────────┘

The rules, each paid for: the sequence is read before *and* after the log end, because a stale one can look
like a duplicate of another batch of equal size (success without appending). The last batch must be ours and
hold the source's records at the same offsets, or one foreign record would make us skip one of the source's. It need not
be one batch of the source's: copiers merge what waits, each as it comes.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from heliograph.cluster.log_reads import Batches, LogSpan, ProducerState
from heliograph.copier.ports import Batch
from heliograph.copier.spec import PRODUCER_EPOCH, CopySpec
from heliograph.model.admission import AFRESH, Admitted, LastBatch, PartitionFacts, Refused, admit_partition
from heliograph.model.errors import CorruptBatch, DecompressionLimit, PartitionStop
from heliograph.model.position import Position
from heliograph.model.states import StopReason
from heliograph.wire.batch import BatchHeader, payload_equal
from heliograph.wire.compare import first_difference
from heliograph.wire.kernels.loading import loaded


@dataclass(frozen=True, slots=True)
class ReadProducer:
    """Answer: ProducerState | None."""


@dataclass(frozen=True, slots=True)
class ReadTargetLog:
    """Answer: LogSpan."""


@dataclass(frozen=True, slots=True)
class ReadSourceLog:
    """Answer: LogSpan."""


@dataclass(frozen=True, slots=True)
class ReadTargetBatch:
    """Answer: the batch that holds the offset, or None."""

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
class Unsettled:
    """Others are writing, or the last records are not yet on all replicas: wait a little. Answer: None."""


Question = (
    ReadProducer
    | ReadTargetLog
    | ReadSourceLog
    | ReadTargetBatch
    | ReadSourceBatch
    | ReadSourceBatches
    | Unsettled
)
Answer = ProducerState | LogSpan | Batch | Batches | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """Where the copy stands. `state_ms`: the record time by which the broker remembers our producer id, None where it
    does not. `source_epoch`: the leader epoch of the source's last batch that the target holds too, -1 if unknown."""

    position: Position
    state_ms: int | None = None
    source_epoch: int = -1


Resync = Generator[Question, Answer, Synced]


def resynchronise(spec: CopySpec) -> Resync:
    producer, target = yield from _settled(spec)
    source = yield from _readable_source(target.end)
    last: Batch | None = None
    if target.start < target.end:
        answer = yield ReadTargetBatch(target.end - 1)
        last = _expect_batch(answer, target.end)
    facts = PartitionFacts(
        source_start=source.start,
        source_end=source.end,
        target_start=target.start,
        target_end=target.end,
        producer_id=spec.producer_id,
        last_batch=_signature(last[0]) if last else None,
        last_sequence=producer.last_sequence if producer else None,
    )
    verdict = admit_partition(facts)
    if isinstance(verdict, Refused):
        raise verdict.as_stop()
    source_epoch = -1
    if last is not None:
        source_epoch = yield from _compare(last, source, target)
    assert isinstance(verdict, Admitted)
    return Synced(
        position=verdict.position,
        state_ms=producer.last_timestamp if producer else None,
        source_epoch=source_epoch,
    )


def _signature(header: BatchHeader) -> LastBatch:
    return LastBatch(producer_id=header.producer_id, last_sequence=header.last_sequence)


def _settled(spec: CopySpec) -> Generator[Question, Answer, tuple[ProducerState | None, LogSpan]]:
    while True:
        before = yield ReadProducer()
        target = yield ReadTargetLog()
        after = yield ReadProducer()
        assert isinstance(target, LogSpan)
        assert before is None or isinstance(before, ProducerState)
        _check_epoch(before, spec)
        if before == after and target.high_watermark == target.end:
            return before, target
        yield Unsettled()


def _readable_source(target_end: int) -> Generator[Question, Answer, LogSpan]:
    """The source's log, once consumers may read up to where the target ends.

    A new leader's high watermark lags for a moment behind what the old one had shown.
    """
    while True:
        source = yield ReadSourceLog()
        assert isinstance(source, LogSpan)
        if not source.high_watermark < target_end <= source.end:
            return source
        yield Unsettled()


def _check_epoch(producer: ProducerState | None, spec: CopySpec) -> None:
    if producer is not None and producer.epoch != PRODUCER_EPOCH:
        raise PartitionStop(
            StopReason.FOREIGN,
            f"somebody else uses this link's producer id {spec.producer_id} with epoch {producer.epoch}",
            hint="only Heliograph may write with that id: find the other writer of the target topic",
        )


def _expect_batch(answer: Answer, target_end: int) -> Batch:
    if not isinstance(answer, tuple) or answer[0].next_offset != target_end:
        raise PartitionStop(
            StopReason.ANCHOR,
            f"the target ends at {target_end} but its last batch cannot be read",
            hint=f"compaction or another tool changed the target topic: see its cleanup.policy; {AFRESH}",
        )
    return answer


def _compare(last: Batch, source: LogSpan, target: LogSpan) -> Generator[Question, Answer, int]:
    """The source's leader epoch of the last record that both hold. Compared are the offsets that both still hold."""
    header, view = last
    first_offset = max(header.base_offset, source.start, target.start)
    if first_offset >= header.next_offset:
        return -1  # retention took the source's copy: the producer id and the sequence must do
    answer = yield ReadSourceBatch(first_offset)
    differs_at = first_offset
    if isinstance(answer, tuple):
        source_header, source_view = answer
        if source_header.base_offset == header.base_offset and payload_equal(view, source_view):
            return source_header.leader_epoch
        batches = yield ReadSourceBatches(first_offset, header.next_offset)
        assert isinstance(batches, Batches)
        found = _first_difference(view, batches, first_offset, header.next_offset)
        if found is None:
            return batches.headers[-1].leader_epoch
        differs_at = found
    raise PartitionStop(
        StopReason.ANCHOR,
        f"the target's last batch [{header.base_offset}, {header.next_offset}) differs from the source's records at"
        f" offset {differs_at}",
        hint=f"the source was truncated or recreated, or the target changed: compare both topics; {AFRESH}",
    )


def _first_difference(view: memoryview, batches: Batches, first_offset: int, next_offset: int) -> int | None:
    kernels = loaded()
    assert kernels is not None, "asked for batches to compare, without the kernels for it"
    try:
        differs = first_difference(
            kernels,
            [view],
            batches.views,
            first_offset=first_offset,
            next_offset=next_offset,
            names=("the target", "the source"),
        )
    except (CorruptBatch, DecompressionLimit) as problem:
        raise PartitionStop(
            StopReason.ANCHOR,
            f"the target's last batch, up to {next_offset}, cannot be compared with the source's records:"
            f" {problem.message}",
            hint="look at these offsets of both topics with a consumer: one of the logs is damaged there",
        ) from problem
    return differs.offset if differs is not None else None
