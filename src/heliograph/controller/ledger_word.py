"""What a ledger says of one partition, as values: why it is stopped, and what operators want of it. Pure.

recorded.py makes them of rows and commands. Whoever has no running mirror to ask shows them (`status`, `topics`).
"""

from __future__ import annotations

from dataclasses import dataclass

from heliograph.model.admission import Refused
from heliograph.model.command import Command, Outcome, Wish
from heliograph.model.partition_status import PartitionStatus
from heliograph.model.states import PartitionState, StopReason

_CODES = frozenset(StopReason)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStop:
    """`code`: a StopReason, or one of a version that has more of them. `first_offset`, `next_offset`: what it is about,
    half-open, where the stop says so."""

    code: str
    message: str
    hint: str = ""
    at: str = ""
    first_offset: int | None = None
    next_offset: int | None = None

    @property
    def reason(self) -> StopReason | None:
        """None: it has no name here."""
        return StopReason(self.code) if self.code in _CODES else None

    @property
    def why(self) -> Refused:
        """As a plan has it: what a later version has stopped is stopped all the same."""
        return Refused(
            reason=self.reason or StopReason.LEDGER,
            message=self.message,
            hint=self.hint,
            first_offset=self.first_offset,
            next_offset=self.next_offset,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of a command, as the mirror that read it says."""

    id: str
    outcome: Outcome
    message: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wished:
    """A command, and what became of it; None: no mirror has read it."""

    command: Command
    answer: Answer | None = None

    @property
    def refused(self) -> bool:
        return self.answer is not None and self.answer.outcome is Outcome.REFUSED


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerWord:
    """`copying`: the last wish to pause or to resume. `remirror`: to delete its whole topic, and mirror it afresh.
    `unread`: rows about the topic, or all of them, are of a version that is not known here."""

    stop: RecordedStop | None = None
    copying: Wished | None = None
    remirror: Wished | None = None
    unread: str | None = None

    @property
    def pause(self) -> Command | None:
        """The command that keeps it paused, or will when a mirror runs."""
        last = self.copying
        if last is None or last.refused or last.command.wish is not Wish.PAUSE:
            return None
        return last.command

    @property
    def state(self) -> PartitionState | None:
        """None: nothing is known to be wrong with it."""
        if self.stop is not None:
            return PartitionState.STOPPED
        return PartitionState.PAUSED if self.pause is not None else None


SILENT = LedgerWord()


def as_recorded(status: PartitionStatus, word: LedgerWord) -> PartitionStatus:
    """What is known of a partition, and beside it what its ledger says."""
    if word.stop is not None:
        return status._replace(
            state=PartitionState.STOPPED,
            reason=word.stop.reason,
            error=word.stop.message,
            hint=word.stop.hint or None,
        )
    return status._replace(state=word.state) if word.state is not None else status
