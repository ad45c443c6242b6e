"""What a ledger says of one partition: why it is stopped, and what operators want of it. Pure.

For whoever has no running mirror to ask (`status`, `topics`). What a running mirror makes of rows and commands is its
own. A row or a command about another target topic of the same name says nothing of this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from heliograph.model.command import Command, CommandState, Outcome, Wish
from heliograph.model.ledger import WHOLE_TOPIC, Fields, LedgerState, RowKind, RowName
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
        wanted = last is not None and last.command.wish is Wish.PAUSE and not last.refused
        return last.command if last is not None and wanted else None

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
            (each.subject.target_topic, each.subject.partition, each.wish is Wish.REMIRROR): each
            for each in commands.about(source_cluster_id)
        }

    def of(self, target_topic: str, partition: int, target_topic_id: str) -> LedgerWord:
        """`target_topic_id`: of the topic that is there now."""
        problem = self._rows.unreadable(target_topic)
        if problem is not None:
            return LedgerWord(unread=f"{problem.message}; {problem.hint}")
        stop = self._fields(target_topic, partition, RowKind.STOP)
        return LedgerWord(
            stop=_stop(stop) if stop and stop.get("target_topic_id", "") in ("", target_topic_id) else None,
            copying=self._wished(target_topic, partition, target_topic_id),
            remirror=self._wished(target_topic, WHOLE_TOPIC, target_topic_id, remirror=True),
        )

    def _wished(
        self, target_topic: str, partition: int, target_topic_id: str, *, remirror: bool = False
    ) -> Wished | None:
        command = self._commands.get((target_topic, partition, remirror))
        if command is None or command.target_topic_id not in ("", target_topic_id):
            return None
        return Wished(command=command, answer=self.answer(target_topic, partition, command.id))

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
