"""Both clusters of a resynchronisation, as far as its questions go, and whoever asks them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from heliograph.cluster.list_offsets import DatedRecord
from heliograph.cluster.log_reads import Batches, LogSpan
from heliograph.cluster.producer_states import ProducerState
from heliograph.copier.ports import Batch
from heliograph.copier.questions import (
    Answer,
    AwaitTime,
    FenceFills,
    LoadKernels,
    Question,
    ReadProducers,
    ReadSourceBatch,
    ReadSourceBatches,
    ReadSourceGap,
    ReadSourceLog,
    ReadTargetBatches,
    ReadTargetLog,
    ReadTargetSegmentEnd,
    ReadTargetSince,
    Unsettled,
)
from heliograph.copier.resync import Synced, resynchronise
from heliograph.copier.spec import CopySpec
from heliograph.model.errors import PartitionStop
from heliograph.wire.batch import read_header

from .source_batches import OURS, batch, spec_of

SPEC = spec_of()
QUESTIONS_AT_MOST = 100


def log_of(sizes: list[int], **changed: int) -> list[Batch]:
    batches, at = [], 0
    for count in sizes:
        view = memoryview(batch(at, count, **{"base_sequence": at, **changed}))
        batches.append((read_header(view), view))
        at += count
    return batches


def state(last_sequence: int, epoch: int = 0) -> ProducerState:
    return ProducerState(epoch=epoch, last_sequence=last_sequence, last_timestamp=0)


@dataclass(slots=True)
class Logs:
    """Both clusters, as far as the questions go. `change` is called before each answer, with the question."""

    source: list[Batch]
    target: list[Batch]
    producer: ProducerState | None
    source_start: int = 0
    target_start: int = 0
    source_end: int | None = None
    target_end: int | None = None
    source_watermark: int | None = None
    target_watermark: int | None = None
    change: Callable[[Question], None] = lambda _question: None
    asked: list[Question] = field(default_factory=list)
    spec: CopySpec = SPEC
    newest: list[DatedRecord] = field(
        default_factory=list
    )  # what is found of the target, question by question
    segment_ends: list[int] = field(default_factory=list)  # of the target

    def answer(self, question: Question) -> Answer:
        self.asked.append(question)
        assert len(self.asked) <= QUESTIONS_AT_MOST
        self.change(question)
        match question:
            case ReadProducers():
                return {} if self.producer is None else {SPEC.producer_id: self.producer}
            case ReadTargetLog():
                return _span(self.target, self.target_start, self.target_end, self.target_watermark)
            case ReadSourceLog():
                return _span(self.source, self.source_start, self.source_end, self.source_watermark)
            case ReadTargetBatches(first_offset, next_offset):
                return _between(self.target, first_offset, next_offset)
            case ReadSourceBatch(offset):
                return _holding(self.source, offset)
            case ReadSourceBatches(first_offset, next_offset) | ReadSourceGap(first_offset, next_offset, _):
                return _between(self.source, first_offset, next_offset)
            case ReadTargetSince(_):
                return self.newest.pop(0) if self.newest else None
            case ReadTargetSegmentEnd(offset):
                return next(end for end in self.segment_ends if end > offset)
            case AwaitTime(record, most_ahead_ms):
                return record.time_ms <= most_ahead_ms  # it is 0 o'clock
            case FenceFills() | LoadKernels() | Unsettled():
                return None


def _span(log: list[Batch], start: int, end: int | None, watermark: int | None) -> LogSpan:
    if end is None:
        end = log[-1][0].next_offset if log else start
    return LogSpan(start=start, high_watermark=end if watermark is None else watermark, end=end)


def _between(log: list[Batch], first_offset: int, next_offset: int) -> Batches:
    found = [b for b in log if b[0].next_offset > first_offset and b[0].base_offset < next_offset]
    seen = [b[0].next_offset for b in log if b[0].next_offset > first_offset]
    read_to = next((end for end in seen if end >= next_offset), seen[-1] if seen else -1)
    return Batches(headers=tuple(b[0] for b in found), views=tuple(b[1] for b in found), read_to=read_to)


def _holding(log: list[Batch], offset: int) -> Batch | None:
    return next((found for found in log if found[0].next_offset > offset), None)


def ask(logs: Logs) -> int:
    return found_by(logs).position.source


def found_by(logs: Logs) -> Synced:
    questions = resynchronise(logs.spec)
    answer: Answer = None
    while True:
        try:
            question = questions.send(answer)
        except StopIteration as done:
            found: Synced = done.value
            return found
        answer = logs.answer(question)


def stop_of(logs: Logs) -> PartitionStop:
    with pytest.raises(PartitionStop) as caught:
        ask(logs)
    assert caught.value.hint
    return caught.value


def half_way(**changed: int) -> Logs:
    """The source holds [0, 6) in three batches, the target the first two."""
    target = log_of([2, 3], producer_id=OURS, producer_epoch=0, **changed)
    return Logs(log_of([2, 3, 1]), target, state(4))
