"""One link's part of its target's ledger: what is written down for it, under which term.

Owns the fields of rows (docs/LEDGER.md). What happens while lanes copy is recorded in the background, in order, and
tried again while the target is away: it must not hold up the run. What must be durable first is written by `write`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from heliograph.controller.ledger import Ledger
from heliograph.controller.recorded import Recorded, time_text
from heliograph.model.admission import Refused
from heliograph.model.clock import time_of_day
from heliograph.model.command import Command, Outcome
from heliograph.model.errors import ProtocolError, RequestFailed
from heliograph.model.fill_way import FillWay
from heliograph.model.hints import hint_for
from heliograph.model.ledger import OF_LINKS, WHOLE_TOPIC, Fields, Row, RowKind
from heliograph.model.partition import MirrorPartition, TopicPartition

AGAIN_S = 1.0
WAITING_MOST = 100_000  # rows; more than a run of 10,000 partitions can have to say at once

TopicIds = Callable[[str], str]  # the id that a target topic has now; empty where it is not known


class LinkLedger:
    """`target_id`: of a target topic, by current metadata."""

    def __init__(self, ledger: Ledger, link: str, source_cluster_id: str, target_id: TopicIds) -> None:
        self.ledger = ledger
        self.recorded = Recorded(ledger.state, ledger.commands, source_cluster_id)
        self._link = link
        self.target_id = target_id
        self._terms: dict[str, int] = {}  # by target topic
        self._waiting: deque[Row] = deque(maxlen=WAITING_MOST)
        self._writing: asyncio.Task[None] | None = None

    # -- the term

    async def take_over(self, topics: Iterable[str], term: int) -> None:
        """These target topics are ours from now on, under this term: what is known of them is carried on."""
        topics = set(topics)
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

    def of_link(self, topics: Mapping[str, int]) -> Row:
        """Which topics the source has when the link first runs."""
        name = self.recorded.topic_name(self._link, RowKind.LINK)
        return Row(name=name, term=0, fields={"at": _now(), "topics": dict(topics)})

    def of_rate(self, way: FillWay, offsets_per_s: float) -> Row:
        """How fast its gaps were filled."""
        name = self.recorded.topic_name(self._link, RowKind.RATE)
        fields = {"way": str(way), "offsets_per_s": round(offsets_per_s, 1), "at": _now()}
        return Row(name=name, term=0, fields=fields)

    def of_topic(self, target_topic: str, source_topic: str, source_topic_id: str) -> Row:
        fields = {
            "link": self._link,
            "source_topic": source_topic,
            "source_topic_id": source_topic_id,
            "target_topic_id": self.target_id(target_topic),
            "since": _now(),
        }
        return self.row(TopicPartition(target_topic, WHOLE_TOPIC), RowKind.TOPIC, fields)

    def of_begin(self, where: TopicPartition, goal: int, start: str, source_topic_id: str) -> Row:
        fields = {"goal": goal, "start": start, "source_topic_id": source_topic_id}
        return self.row(where, RowKind.BEGIN, {**fields, "target_topic_id": self.target_id(where.topic)})

    def of_stop(self, key: MirrorPartition, why: Refused) -> Row:
        fields = {
            "code": str(why.reason),
            "message": why.message,
            "hint": hint_for(key, why.hint),
            "first_offset": why.first_offset,
            "next_offset": why.next_offset,
            "at": _now(),
            "link": self._link,
            "source_topic": key.source_topic,
            "target_topic_id": self.target_id(key.target_topic),
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

    # -- writing

    async def write(self, rows: Sequence[Row]) -> None:
        """Durable on return, behind what is being recorded."""
        await self.flush()
        await self.ledger.write(rows)

    def record(self, rows: Iterable[Row]) -> None:
        """In the background."""
        self._waiting.extend(rows)
        if self._waiting and (self._writing is None or self._writing.done()):
            self._writing = asyncio.get_running_loop().create_task(self._write_waiting())

    async def _write_waiting(self) -> None:
        while self._waiting:
            rows = list(self._waiting)
            try:
                await self.ledger.write(rows)
            except (RequestFailed, ProtocolError):
                await asyncio.sleep(AGAIN_S)  # the target is away; lanes tell so
                continue
            for _ in rows:
                self._waiting.popleft()

    async def flush(self) -> None:
        """Until all that was recorded is written."""
        if self._writing is not None:
            await asyncio.shield(self._writing)

    async def aclose(self, limit_s: float) -> None:
        if self._writing is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit_s):
                    await self.flush()
            self._writing.cancel()


def _now() -> str:
    return time_text(time_of_day())
