"""What is written to Heliograph's own topics of a world's target, read as the judge reads it: by itself, and at the
moment at which it is there. Shares no code with what writes and reads rows in production.

Knows where mirrors begin by what is written, and whether it was right to begin there.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from heliograph.cluster.record_log import LogRecord
from heliograph.model.partition import MirrorPartition
from heliograph.model.start import LATEST

from .gap_plan import AGED, AGED_HOURS
from .judge import PartitionJudge, Wrong
from .raw_batch import HOUR_MS

if TYPE_CHECKING:
    from .world import World

LEDGER, COMMANDS = "__heliograph_ledger", "__heliograph_commands"


class LedgerEye:
    """`goals`: where each mirror begins, by the row of the highest term."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._terms: dict[MirrorPartition, int] = {}
        self.goals: dict[MirrorPartition, int] = {}
        self._kinds: dict[str, Callable[[PartitionJudge, int, dict[str, Any]], None]] = {"begin": self._begin}

    def goal_of(self, key: MirrorPartition) -> int:
        return self.goals.get(key, 0)

    def see(self, topic: str, record: LogRecord) -> None:
        if topic != LEDGER or record.key is None or record.value is None:
            return
        source_id, target_topic, number, kind, term = json.loads(record.key[1:])
        if kind in self._kinds:
            self._kinds[kind](
                self.judge_of(source_id, target_topic, number), term, json.loads(record.value[1:])
            )

    def judge_of(self, source_id: str, target_topic: str, number: int) -> PartitionJudge:
        world = self._world
        sources = {link.name: world.clusters[link.source].cluster_id for link in world.links}
        (judge,) = (
            each
            for each in world.judges
            if (sources[each.key.link], each.key.target_topic, each.key.partition)
            == (source_id, target_topic, number)
        )
        return judge

    # -- where mirrors begin

    def _begin(self, judge: PartitionJudge, term: int, fields: dict[str, Any]) -> None:
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
