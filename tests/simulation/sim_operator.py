"""An operator of a world's mirrors, who writes commands into the target's log as `heliograph topics` does: partitions
are paused and resumed, and losses accepted as they were shown. When the faults are over all is made good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from heliograph.model.command import Command, Subject, Wish, encode_command
from heliograph.model.ledger import COMMANDS_TOPIC
from heliograph.model.partition import MirrorPartition
from heliograph.model.states import StopReason

from .judge import PartitionJudge
from .operator_plan import ACCEPT, PAUSE, PAUSE_LONG, PAUSE_TOPIC, WAVER

if TYPE_CHECKING:
    from .world import World

PAUSED_S, LONG_S = 40.0, 30.0
LOOK_S = 5.0

MOST_TRIES = 8  # to accept a loss: what is shown may be older than the last stop


class SimOperator:
    def __init__(self, world: World) -> None:
        self._world = world
        self._paused: set[MirrorPartition] = set()
        self._written = 0
        self._tries: dict[MirrorPartition, int] = {}
        self.does = {
            PAUSE: self._pause_one,
            PAUSE_TOPIC: self._pause_topic,
            PAUSE_LONG: self._pause_long,
            WAVER: self._waver,
            ACCEPT: self._accept,
        }
        for at_s, what in world.plan.acts:
            world.after(at_s, self.does[what])

    def make_good(self) -> None:
        """The faults are over: nothing is left paused, nor stopped for losses; again and again, until it is so."""
        for judge in self._world.judges:
            if judge.key in self._paused:
                self._resume(judge)
        if self._world.plan.acts:
            self._accept()
            self._world.after(LOOK_S, self.make_good)

    @property
    def waits(self) -> bool:
        """For an answer, or until it looks again."""
        eye = self._world.eye
        lost = (judge for judge in self._world.judges if self._is_lost(judge) and self._tries_left(judge))
        return bool(self._paused or eye.unanswered or (self._world.plan.acts and any(lost)))

    # -- pauses

    def _pause_one(self) -> None:
        self._pause([self._world.chance.choice(self._world.judges)])

    def _pause_topic(self) -> None:
        link = self._world.chance.choice(self._world.links).name
        self._pause([judge for judge in self._world.judges if judge.key.link == link])

    def _pause_long(self) -> None:
        """The partition to which something happens, if something does."""
        self._pause([self._world.judges[self._world.plan.loud_at]], LONG_S)

    def _waver(self) -> None:
        """Whoever reads the last command reads those before it at the same time."""
        judge = self._world.chance.choice(self._world.judges)
        self._pause([judge], LONG_S)
        self._resume(judge)
        self._pause([judge])

    def _pause(self, judges: list[PartitionJudge], lasts_s: float | None = None) -> None:
        chance = self._world.chance
        for judge in judges:
            if judge.key not in self._paused and not self._world.mended:
                self._paused.add(judge.key)
                self._write(judge, Wish.PAUSE)
                paused_s = PAUSED_S * chance.random() * chance.random() if lasts_s is None else lasts_s
                self._world.after(paused_s, self._resume, judge)

    def _resume(self, judge: PartitionJudge) -> None:
        """What has stopped meanwhile is left so: to resume it would be to resolve the stop."""
        if judge.key in self._paused:
            self._paused.discard(judge.key)
            if self._world.eye.stop_of(judge.key) is None:
                self._write(judge, Wish.RESUME)

    # -- losses

    def _is_lost(self, judge: PartitionJudge) -> bool:
        stop = self._world.eye.stop_of(judge.key)
        return stop is not None and stop["code"] == StopReason.LOST

    def _tries_left(self, judge: PartitionJudge) -> bool:
        return self._tries.get(judge.key, 0) < MOST_TRIES

    def _accept(self) -> None:
        for judge in self._world.judges:
            if self._is_lost(judge) and self._tries_left(judge) and judge.key not in self._paused:
                self._tries[judge.key] = self._tries.get(judge.key, 0) + 1
                stop = self._world.eye.stop_of(judge.key)
                assert stop is not None
                shown = (stop["first_offset"], stop["next_offset"])
                judge.accept_loss(*shown)
                self._write(judge, Wish.RESUME, stop=stop["code"], loses={judge.key.partition: shown})

    # -- inside

    def _write(self, judge: PartitionJudge, wish: Wish, **how: Any) -> None:
        world, key = self._world, judge.key
        link = next(each for each in world.links if each.name == key.link)
        cluster = world.clusters[link.target]
        self._written += 1
        command = Command(
            id=f"command {self._written}",
            wish=wish,
            subject=Subject(
                source_cluster_id=world.clusters[link.source].cluster_id,
                target_topic=key.target_topic,
                partition=key.partition,
            ),
            at=world.time_of_day(),
            author="operator",
            target_topic_id=cluster.topics[key.target_topic].topic_id
            if world.plan.conditions.has_ids
            else "",
            **how,
        )
        world.tell("OPERATOR:", wish, key, how or "")
        cluster.append_own(COMMANDS_TOPIC, *encode_command(command))
