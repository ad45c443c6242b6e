"""Which leader wrote which part of a log: how a reader learns that its history is another one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

UNDEFINED = -1


class EpochEnd(NamedTuple):
    epoch: int
    end: int


@dataclass(slots=True)
class LeaderEpochs:
    """`starts`: each epoch and its first offset."""

    starts: list[tuple[int, int]] = field(default_factory=list)

    def begin(self, epoch: int, log_end: int) -> None:
        if not self.starts or self.starts[-1][0] < epoch:
            self.starts.append((epoch, log_end))

    def truncate(self, log_end: int) -> None:
        self.starts = [entry for entry in self.starts if entry[1] < log_end]

    def begin_log_at(self, offset: int) -> None:
        """The log's start has moved: of the epochs before it the last one is kept, and begins there."""
        before = [entry for entry in self.starts if entry[1] <= offset]
        if before:
            self.starts = [(before[-1][0], offset), *self.starts[len(before) :]]

    def end_of(self, epoch: int, log_end: int) -> EpochEnd:
        """Where the log's last epoch up to this one ends."""
        if not self.starts or epoch > self.starts[-1][0]:
            return EpochEnd(UNDEFINED, UNDEFINED)
        if epoch == self.starts[-1][0]:
            return EpochEnd(epoch, log_end)
        higher = next(i for i, (each, _) in enumerate(self.starts) if each > epoch)
        return EpochEnd(self.starts[higher - 1][0] if higher else epoch, self.starts[higher][1])
