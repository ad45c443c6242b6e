"""One log that answers what a search asks of it, and whoever asks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from heliograph.cluster.log_reads import Batches, LogSpan
from heliograph.copier.ports import Batch
from heliograph.copier.questions import (
    Answer,
    Asking,
    Question,
    ReadSourceBatches,
    ReadSourceGap,
    ReadTargetBatches,
)
from heliograph.wire.batch import read_header

T = TypeVar("T")


@dataclass(slots=True)
class PlayedLog:
    """`aborted`: producer id and first offset, as a broker lists them to who asks for committed records."""

    batches: list[Batch]
    aborted: tuple[tuple[int, int], ...] = ()
    asked: list[Question] = field(default_factory=list)
    largest_bytes: int = 0  # of all answers

    @property
    def end(self) -> int:
        return self.batches[-1][0].next_offset if self.batches else 0

    def span(self, start: int = 0, end: int | None = None) -> LogSpan:
        end = self.end if end is None else end
        return LogSpan(start=start, high_watermark=end, end=end)

    def answer(self, question: Question) -> Batches:
        self.asked.append(question)
        match question:
            case ReadSourceBatches(first, stop) | ReadTargetBatches(first, stop):
                return self._between(first, stop)
            case ReadSourceGap(first, stop, True):
                return self._between(first, stop, self.aborted)
        raise AssertionError(question)

    def _between(self, first: int, stop: int, aborted: tuple[tuple[int, int], ...] = ()) -> Batches:
        assert first < stop
        found = [each for each in self.batches if each[0].next_offset > first and each[0].base_offset < stop]
        self.largest_bytes = max(self.largest_bytes, sum(len(view) for _, view in found))
        return Batches(
            headers=tuple(header for header, _ in found),
            views=tuple(view for _, view in found),
            aborted=aborted,
        )


def played(batches: Iterable[bytes | bytearray]) -> PlayedLog:
    views = [memoryview(batch) for batch in batches]
    return PlayedLog([(read_header(view), view) for view in views])


def drive(log: PlayedLog, search: Asking[T]) -> T:
    answer: Answer = None
    while True:
        try:
            question = search.send(answer)
        except StopIteration as done:
            found: T = done.value
            return found
        answer = log.answer(question)
