"""What a ledger says of one partition: why it is stopped, and what operators want of it. Pure.

For whoever has no running mirror to ask (`status`, `topics`). What a running mirror makes of rows and commands is its
own. A row or a command about another target topic of the same name says nothing of this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from heliograph.model.command import Command, CommandState, Outcome, Wish
from heliograph.model.ledger import Fields, LedgerState, RowKind, RowName
from heliograph.model.partition_status import PartitionStatus
from heliograph.model.states import PartitionState, StopReason


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of a command, as the mirror that read it says."""

    id: str
    outcome: Outcome
    message: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerWord:
    """`command`: the last that asked to pause or to resume. `answer`: what became of it; None: no mirror has read it.
    `unread`: rows about the topic, or all of them, are of a version that is not known here."""

    stop: RecordedStop | None = None
    command: Command | None = None
    answer: Answer | None = None
    unread: str | None = None

    @property
    def pause(self) -> Command | None:
        """The command that keeps it paused, or will when a mirror runs."""
        refused = self.answer is not None and self.answer.outcome is Outcome.REFUSED
        wanted = self.command is not None and self.command.wish is Wish.PAUSE and not refused
        return self.command if wanted else None

    @property
    def state(self) -> PartitionState | None:
        """None: nothing is known to be wrong with it."""
        if self.stop is not None:
            return PartitionState.STOPPED
        return PartitionState.PAUSED if self.pause is not None else None


SILENT = LedgerWord()


class LedgerWords:
    """Of one source cluster; `commands` are looked through once."""

    def __init__(self, rows: LedgerState, commands: CommandState, source_cluster_id: str) -> None:
        self._rows = rows
        self._source = source_cluster_id
        self._commands = {
            (each.subject.target_topic, each.subject.partition): each
            for each in commands.about(source_cluster_id)
            if each.wish is not Wish.REMIRROR
        }

    def of(self, target_topic: str, partition: int, target_topic_id: str) -> LedgerWord:
        """`target_topic_id`: of the topic that is there now."""
        problem = self._rows.unreadable(target_topic)
        if problem is not None:
            return LedgerWord(unread=f"{problem.message}; {problem.hint}")
        stop = self._fields(target_topic, partition, RowKind.STOP)
        command = self._commands.get((target_topic, partition))
        if command is not None and command.target_topic_id not in ("", target_topic_id):
            command = None
        return LedgerWord(
            stop=_stop(stop) if stop and stop.get("target_topic_id", "") in ("", target_topic_id) else None,
            command=command,
            answer=self.answer(target_topic, partition, command.id) if command else None,
        )

    def answer(self, target_topic: str, partition: int, command_id: str) -> Answer | None:
        """To this command, and to no other."""
        fields = self._fields(target_topic, partition, RowKind.ANSWER)
        return _answer(fields) if fields and fields.get("id") == command_id else None

    def _fields(self, target_topic: str, partition: int, kind: RowKind) -> Fields | None:
        name = RowName(
            source_cluster_id=self._source, target_topic=target_topic, partition=partition, kind=kind
        )
        return self._rows.fields(name)


def as_recorded(status: PartitionStatus, word: LedgerWord) -> PartitionStatus:
    """What is known of a partition, and beside it what its ledger says."""
    if word.stop is not None:
        known = word.stop.code in set(StopReason)
        return status._replace(
            state=PartitionState.STOPPED,
            reason=StopReason(word.stop.code) if known else None,
            error=word.stop.message,
            hint=word.stop.hint or None,
        )
    return status._replace(state=word.state) if word.state is not None else status


def _stop(fields: Fields) -> RecordedStop:
    return RecordedStop(
        code=_text(fields, "code"),
        message=_text(fields, "message"),
        hint=_text(fields, "hint"),
        at=_text(fields, "at"),
        first_offset=_offset(fields.get("first_offset")),
        next_offset=_offset(fields.get("next_offset")),
    )


def _answer(fields: Fields) -> Answer | None:
    """None: an outcome of which this version does not know."""
    if fields.get("outcome") not in set(Outcome):
        return None
    return Answer(
        id=_text(fields, "id"),
        outcome=Outcome(fields["outcome"]),
        message=_text(fields, "message"),
        hint=_text(fields, "hint"),
    )


def _text(fields: Fields, name: str) -> str:
    return str(fields.get(name) or "")


def _offset(value: Any) -> int | None:
    return value if isinstance(value, int) else None
