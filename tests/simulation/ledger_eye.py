"""What is written to Heliograph's own topics of a world's target, read as the judge reads it: by itself, and at the
moment at which it is there. Shares no code with what writes and reads rows in production.

Knows where mirrors begin by what is written, and whether it was right to begin there; which partitions are stopped;
and what became of commands: a judge is told when its partition is paused, and when it is not any more.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from heliograph.cluster.record_log import LogRecord
from heliograph.model.partition import MirrorPartition
from heliograph.model.start import LATEST

from .gap_plan import AGED, AGED_HOURS
from .judge import PartitionJudge, Wrong
from .raw_batch import HOUR_MS

if TYPE_CHECKING:
    from .sim_driver import SimDriver
    from .world import World

Fields = dict[str, Any]
LEDGER, COMMANDS = "__heliograph_ledger", "__heliograph_commands"


class LedgerEye:
    """`goals`: where each mirror begins, by the row of the highest term. `unanswered`: commands that count, by id."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._terms: dict[MirrorPartition, int] = {}
        self.goals: dict[MirrorPartition, int] = {}
        self._stops: dict[MirrorPartition, dict[int, Fields]] = {}
        self._since: dict[tuple[str, str], int] = {}  # the term of each topic's own row
        self._last: dict[MirrorPartition, Fields] = {}  # the last command about each
        self._answered: dict[MirrorPartition, tuple[str, SimDriver | None]] = {}  # the last of them, by whom
        self.unanswered: dict[str, MirrorPartition] = {}

    def goal_of(self, key: MirrorPartition) -> int:
        return self.goals.get(key, 0)

    def see(self, topic: str, record: LogRecord, by: SimDriver | None) -> None:
        if topic not in (LEDGER, COMMANDS) or record.key is None:
            return
        source_id, target_topic, number, kind, *rest = json.loads(record.key[1:])
        term = int(rest[0]) if rest else 0
        if kind == "topic" and record.value is not None:
            self._since[source_id, target_topic] = max(term, self._since.get((source_id, target_topic), 0))
        if kind not in ("begin", "stop", "answer", "copy") or number < 0:
            return
        judge = self._judge_of(source_id, target_topic, number)
        fields = None if record.value is None else json.loads(record.value[1:])
        if kind == "stop":
            self._stop(judge, term, fields)
            if fields is not None and term >= self._since.get((source_id, target_topic), 0):
                judge.stop_written(fields["code"])
        elif fields is not None and kind == "begin":
            self._begin(judge, term, fields)
        elif fields is not None and kind == "answer":
            self._answer(judge, fields, by)
        elif fields is not None:
            self._command(judge, fields)

    def _judge_of(self, source_id: str, target_topic: str, number: int) -> PartitionJudge:
        world = self._world
        sources = {link.name: world.clusters[link.source].cluster_id for link in world.links}
        (judge,) = (
            each
            for each in world.judges
            if (sources[each.key.link], each.key.target_topic, each.key.partition)
            == (source_id, target_topic, number)
        )
        return judge

    # -- stops and commands

    def stop_of(self, key: MirrorPartition) -> Fields | None:
        """The row that counts: under a lower term than that of its topic's own row it means nothing."""
        terms = self._stops.get(key)
        link = next(each for each in self._world.links if each.name == key.link)
        since = self._since.get((self._world.clusters[link.source].cluster_id, key.target_topic), 0)
        return terms[max(terms)] if terms and max(terms) >= since else None

    def _stop(self, judge: PartitionJudge, term: int, fields: Fields | None) -> None:
        terms = self._stops.setdefault(judge.key, {})
        if fields is None:
            terms.pop(term, None)
        else:
            terms[term] = fields

    def _command(self, judge: PartitionJudge, command: Fields) -> None:
        """Of two about one partition the later counts, whatever became of the earlier."""
        former = self._last.get(judge.key)
        if former is not None:
            self.unanswered.pop(former["id"], None)
        self._last[judge.key] = command
        self.unanswered[command["id"]] = judge.key
        judge.resumed()

    def _answer(self, judge: PartitionJudge, answer: Fields, by: SimDriver | None) -> None:
        command = self._last.get(judge.key)
        if command is None or answer["outcome"] == "under_way":
            return
        if command["id"] != answer["id"]:
            if self._answered.get(judge.key) == (command["id"], by):
                raise Wrong(
                    f"commands: {judge.key}: the answer to {command['wish']} gives way to an earlier one's"
                )
            return
        self._answered[judge.key] = (command["id"], by)
        first = self.unanswered.pop(command["id"], None) is not None  # else it is carried on by the next run
        if first:
            self._world.tell("answer to", command["wish"], judge.key, answer["outcome"], answer["message"])
        if answer["outcome"] == "applied" and by is not None:
            if command["wish"] == "pause":
                judge.paused(by)
            elif first and command["loses"] and answer["message"] == "resumed":
                judge.goes_on_without()

    # -- where mirrors begin

    def _begin(self, judge: PartitionJudge, term: int, fields: Fields) -> None:
        key, goal = judge.key, int(fields["goal"])
        self._world.tell("mirror of", key, "begins at", goal, "by term", term)
        if term < self._terms.get(key, 0):
            return
        if key not in self.goals and not judge.loud:
            self._compare(judge, goal)
        self._terms[key], self.goals[key] = term, goal

    def _compare(self, judge: PartitionJudge, goal: int) -> None:
        """With what the source holds: it was resolved a moment ago."""
        source, start = judge.source, self._world.starts[judge.key.link]
        below = [each for each in source.log if each.header.next_offset <= goal]
        borders = {source.start, source.readable_end, *(each.header.base_offset for each in source.log)}
        right = goal in borders and goal <= max(source.readable_end, source.start)
        if start == LATEST:
            right = right and goal >= judge.first_end
        elif start == AGED:
            since_ms = self._world.wall_ms - AGED_HOURS * HOUR_MS
            here = source.holding(goal)
            younger = here is None or here.header.max_timestamp >= since_ms or goal == source.readable_end
            # What grew meanwhile may be young where nothing was then.
            right = right and all(each.header.max_timestamp < since_ms for each in below)
            right = right and (younger or source.readable_end > goal)
        else:
            right = False
        if not right:
            raise Wrong(
                f"start: {judge.key}: {start} is taken for offset {goal} of [{source.start}, {source.readable_end})"
            )
