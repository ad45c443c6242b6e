"""One link's part of its target's ledger: what is written down for it, under which term.

Owns the fields of rows (docs/LEDGER.md). What happens while lanes copy is recorded in the background, in order, and
tried again while the target is away: it must not hold up the run. What must be durable first is written by `write`.
Rows are written under the term of then, not of when they were recorded.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from heliograph.cluster.record_log import APPEND_LIMIT_S
from heliograph.controller.at_first import AtFirst, part_name, parts_of, read_at_first
from heliograph.controller.followed_configs import (
    FOLLOWED,
    NONE_FOLLOWED,
    SETTING,
    Followed,
    read_followed,
)
from heliograph.controller.ledger import NEVER, Ledger
from heliograph.controller.recorded import Recorded, time_text
from heliograph.model.admission import Refused
from heliograph.model.clock import time_of_day
from heliograph.model.command import Command, Outcome
from heliograph.model.errors import BrokerRefused, ProtocolError, RequestFailed, RequestTimedOut
from heliograph.model.fill_way import FillWay
from heliograph.model.hints import hint_for
from heliograph.model.ledger import OF_LINKS, WHOLE_TOPIC, Fields, Row, RowKind, RowName
from heliograph.model.partition import MirrorPartition, TopicPartition
from heliograph.model.states import StopReason
from heliograph.wire.error_codes import ErrorCode

AGAIN_S = 1.0
# What no other try, and no other leader, would take.
_REFUSED = NEVER | {
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.INVALID_RECORD,
}

TopicIds = Callable[[str], str]  # the id that a target topic has now; empty where it is not known
# Why rows that were recorded are not written, and how many of them are dropped; 0: they wait.
Unwritten = Callable[[RequestFailed | ProtocolError, int], None]


class LinkLedger:
    """`target_id`: of a target topic, by current metadata. `tell` is called once, until a row is written again."""

    def __init__(
        self,
        ledger: Ledger,
        link: str,
        source_cluster_id: str,
        target_id: TopicIds,
        tell: Unwritten = lambda _problem, _dropped: None,
    ) -> None:
        self.ledger = ledger
        self.recorded = Recorded(ledger.state, ledger.commands, source_cluster_id)
        self._link = link
        self.target_id = target_id
        self._terms: dict[str, int] = {}  # by target topic
        self._tell = tell
        self._told = False
        self._waiting: dict[RowName, Row] = {}  # the last word on each: as many as there are partitions
        self._writing: asyncio.Task[None] | None = None

    # -- the term

    async def take_over(self, topics: Iterable[str], term: int) -> None:
        """These target topics are ours from now on, under this term: what is known of them is carried on, also what
        was recorded until now."""
        topics = set(topics)
        await self.flush(APPEND_LIMIT_S)
        self._terms |= dict.fromkeys(topics, term)
        names = [
            name
            for name in self.ledger.state.names(self.recorded.source_cluster_id)
            if name.target_topic in topics and name.kind not in OF_LINKS
        ]
        await self.ledger.write(self.ledger.state.carried_on(names, term))

    def term_of(self, topic: str) -> int:
        return self._terms.get(topic, 0)

    # -- rows

    def row(self, where: TopicPartition, kind: RowKind, fields: Fields | None) -> Row:
        name = self.recorded.name(where, kind)
        return Row(name=name, term=self.term_of(where.topic), fields=fields)

    def of_link(self, at_first: AtFirst) -> list[Row]:
        """Which topics the source has when the link first runs; the row that makes them count is the last."""
        whole, *others = parts_of(at_first)
        fields = {"at": _now(), **whole, "parts": len(others)}
        numbered = [*enumerate(others), (WHOLE_TOPIC, fields)]
        source_id = self.recorded.source_cluster_id
        return [
            Row(name=part_name(source_id, self._link, number), term=0, fields=each)
            for number, each in numbered
        ]

    def at_first(self) -> AtFirst | None:
        """What it says; None: the link never ran."""
        return read_at_first(self.ledger.state, self.recorded.source_cluster_id, self._link)

    def of_rate(self, way: FillWay, offsets_per_s: float) -> Row:
        """How fast its gaps were filled."""
        name = self.recorded.topic_name(self._link, RowKind.RATE)
        fields = {"way": str(way), "offsets_per_s": round(offsets_per_s, 1), "at": _now()}
        return Row(name=name, term=0, fields=fields)

    def of_topic(
        self,
        target_topic: str,
        source_topic: str,
        source_topic_id: str,
        by_hand: Mapping[str, str] | None = None,
        followed: Followed = NONE_FOLLOWED,
        *,
        created: bool = False,
    ) -> Row:
        """`by_hand`: configs that somebody has set on it, and that it gets when it is built. `followed`: those that it
        was created with. `created`: the mirror has created the target topic that is there now."""
        fields: dict[str, Any] = {
            "link": self._link,
            "source_topic": source_topic,
            "source_topic_id": source_topic_id,
            "target_topic_id": self.target_id(target_topic),
            "since": _now(),
            **({"configs": dict(by_hand)} if by_hand else {}),
            **followed.fields(),
            **({"created": True} if created else {}),
        }
        return self.row(TopicPartition(target_topic, WHOLE_TOPIC), RowKind.TOPIC, fields)

    def of_followed(self, target_topic: str, followed: Followed) -> list[Row]:
        """The topic's row, with these configs in the place of others; none where it says so already, or is not there.
        Whoever writes it has the topic for himself (topic_turns.py): another row of the topic would be lost."""
        whole = TopicPartition(target_topic, WHOLE_TOPIC)
        fields = self.ledger.state.fields(self.recorded.name(whole, RowKind.TOPIC))
        if fields is None or read_followed(fields) == followed:
            return []
        rest = {name: value for name, value in fields.items() if name not in (FOLLOWED, SETTING)}
        return [self.row(whole, RowKind.TOPIC, {**rest, **followed.fields()})]

    def of_begin(self, where: TopicPartition, goal: int, start: str, source_topic_id: str) -> Row:
        fields = {"goal": goal, "start": start, "source_topic_id": source_topic_id}
        return self.row(where, RowKind.BEGIN, {**fields, "target_topic_id": self.target_id(where.topic)})

    def of_stop(self, key: MirrorPartition, why: Refused) -> Row:
        # Metadata may still show the former topic when one was made again: that stop is about whichever is there.
        recreated = why.reason is StopReason.RECREATED
        topic_id = "" if recreated else self.target_id(key.target_topic)
        fields = {
            "code": str(why.reason),
            "message": why.message,
            "hint": hint_for(key, why.hint),
            "first_offset": why.first_offset,
            "next_offset": why.next_offset,
            "at": _now(),
            "link": self._link,
            "source_topic": key.source_topic,
            "target_topic_id": topic_id,
        }
        return self.row(key.target, RowKind.STOP, fields)

    def of_gaps(self, where: TopicPartition) -> Row:
        return self.row(where, RowKind.GAPS, {"target_topic_id": self.target_id(where.topic)})

    def of_loss(self, where: TopicPartition, lost: tuple[int, int], by: str) -> Row:
        fields = {"first_offset": lost[0], "next_offset": lost[1], "by": by, "at": _now()}
        return self.row(where, RowKind.LOSS, {**fields, "target_topic_id": self.target_id(where.topic)})

    def of_answer(self, command: Command, outcome: Outcome, message: str, hint: str = "") -> Row:
        where = TopicPartition(command.subject.target_topic, command.subject.partition)
        fields = {"id": command.id, "outcome": str(outcome), "message": message, "hint": hint, "at": _now()}
        return self.row(where, RowKind.ANSWER, fields)

    def of_remirror(self, topic: str, command_id: str, topic_id: str, configs: Mapping[str, str]) -> Row:
        fields: dict[str, Any] = {
            "id": command_id,
            "target_topic_id": topic_id,
            "configs": dict(configs),
            "at": _now(),
        }
        return self.row(TopicPartition(topic, WHOLE_TOPIC), RowKind.REMIRROR, fields)

    def removed(self, where: TopicPartition, kind: RowKind) -> list[Row]:
        """What removes the row, if there is one."""
        known = self.ledger.state.fields(self.recorded.name(where, kind))
        return [] if known is None else [self.row(where, kind, None)]

    # -- topics that are gone at the source

    # No term was taken for those that were gone before the run began, and none is needed: only what is known is
    # replaced or removed, each row under its own term. Whoever took the topic over later has rows of a higher one.

    async def keep(self, topics: Iterable[str]) -> None:
        """Write down that these target topics stay although their source topics are gone."""
        state, rows = self.ledger.state, []
        for topic in topics:
            name = self.recorded.topic_name(topic, RowKind.TOPIC)
            if (fields := state.fields(name)) is not None:
                rows.append(Row(name=name, term=state.term(name), fields={**fields, "kept": True}))
        await self.ledger.write(rows)

    async def forget(self, topic: str) -> None:
        """Remove what is written down about a target topic that is deleted: nothing of it is to be taken for the next
        one of its name. Answers to commands stay, so that no command is carried out twice."""
        await self.flush(APPEND_LIMIT_S)
        names = [name for name in self.recorded.rows_of(topic) if name.kind is not RowKind.ANSWER]
        await self.ledger.write(self.ledger.state.removed(names))

    # -- writing

    async def write(self, rows: Sequence[Row]) -> None:
        """Durable on return, behind what is being recorded. `RequestFailed` if that takes too long."""
        await self.flush(APPEND_LIMIT_S)
        await self.ledger.write(self._stamped(rows))

    def _stamped(self, rows: Iterable[Row]) -> list[Row]:
        """Under the term of now: one that began since they were made must not find them under the last one."""
        return [
            row if row.name.kind in OF_LINKS else replace(row, term=self.term_of(row.name.target_topic))
            for row in rows
        ]

    def record(self, rows: Iterable[Row]) -> None:
        """In the background."""
        for row in rows:
            self._waiting.pop(row.name, None)  # in the order of the last words
            self._waiting[row.name] = row
        if self._waiting and (self._writing is None or self._writing.done()):
            self._writing = asyncio.get_running_loop().create_task(self._write_waiting())

    async def _write_waiting(self) -> None:
        while self._waiting:
            rows = list(self._waiting.values())
            try:
                await self.ledger.write(self._stamped(rows))
            except (RequestFailed, ProtocolError) as problem:
                if not isinstance(problem, BrokerRefused) or problem.code not in _REFUSED:
                    self._tell_once(problem, 0)
                    await asyncio.sleep(AGAIN_S)
                    continue
                self._tell_once(problem, len(rows))
            else:
                self._told = False
            for row in rows:
                if self._waiting.get(row.name) is row:
                    del self._waiting[row.name]

    def _tell_once(self, problem: RequestFailed | ProtocolError, dropped: int) -> None:
        if not self._told:
            self._told = True
            self._tell(problem, dropped)

    async def flush(self, limit_s: float) -> None:
        """Until all that was recorded is written, or dropped; `RequestTimedOut` after this time."""
        if self._writing is None or self._writing.done():
            return
        done, _ = await asyncio.wait({self._writing}, timeout=limit_s)
        if not done:
            raise RequestTimedOut(f"what was recorded before is not written after {limit_s:.0f} s")

    async def aclose(self, limit_s: float) -> None:
        if self._writing is not None:
            with contextlib.suppress(RequestTimedOut):
                await self.flush(limit_s)
            self._writing.cancel()


def _now() -> str:
    return time_text(time_of_day())
