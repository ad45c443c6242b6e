"""The faults of a plan, made to happen: to lanes and clocks, to the driver, to brokers, to the logs themselves."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tests.wire.batches import make_batch

from .model_broker import ModelPartition, Waiting
from .raw_batch import HOUR_MS
from .source_content import EPOCH_MS

if TYPE_CHECKING:
    from .driver import SimDriver
    from .lane import SimLane
    from .world import World


class Faults:
    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = world.chance
        self._kinds: dict[str, Callable[[], None]] = {
            "lane freezes": self._freeze_lane,
            "lane is killed": self._kill_lane,
            "lane is cut off": self._cut_lane,
            "lane is given up": self._give_lane_up,
            "line breaks": self._break_line,
            "messages are lost": self._lose_messages,
            "hand-over": self._take_executor_away,
            "driver freezes": self._freeze_driver,
            "driver is busy": self._keep_driver_busy,
            "driver is cut off": self._cut_driver,
            "driver is killed": self._kill_driver,
            "lane's clock jumps": self._jump_lane,
            "brokers' clock jumps": self._jump_brokers,
            "source's leader moves": self._move_source,
            "segment is rolled": self._roll,
            "broker restarts": self._restart_broker,
            "leader's epoch grows": self._bump_epoch,
            "leader moves": self._move_leader,
            "unclean election": self._lag_for_unclean_election,
            "follower lags": partial(self._lag, 1),
            "followers lag": partial(self._lag, 2),
            "foreign writer": self._write_foreign,
            "target recreated": self._recreate_target,
            "source truncated": self._truncate_source,
            "source recreated": self._recreate_source,
        }
        for at_ms, kind in world.plan.faults:
            world.after(at_ms, self._happen, kind)

    def _happen(self, kind: str) -> None:
        self._world.tell("FAULT:", kind)
        self._kinds[kind]()
        self._world.target.changed()

    def _later(self, least_ms: int, most_ms: int, do: Callable[..., None], *what: object) -> None:
        self._world.after(self._chance.randint(least_ms, most_ms), do, *what)

    # -- lanes and the driver

    def _lane(self) -> SimLane | None:
        """One that copies, if there is one."""
        lanes = self._world.lanes
        copying = [lane for lane in lanes if lane.copier is not None]
        return self._chance.choice(copying or lanes) if lanes else None

    def _freeze_lane(self) -> None:
        if (lane := self._lane()) is not None:
            lane.freeze()
            self._later(200, 6_000, lane.thaw)

    def _kill_lane(self) -> None:
        if (lane := self._lane()) is not None:
            lane.kill()
            if self._chance.random() < 0.2:
                lane.driver.replace_lane(lane.number)

    def _cut_lane(self) -> None:
        if (lane := self._lane()) is not None:
            lane.cut = True
            self._later(500, 6_000, lane.reconnect)

    def _give_lane_up(self) -> None:
        """Its line breaks at the driver's end; at its own it may hear of that much later."""
        if (lane := self._lane()) is not None:
            if self._chance.random() < 0.5:
                lane.cut = True
                self._later(100, 6_000, lane.reconnect)
            lane.driver.give_up(lane.number)

    def _take_executor_away(self) -> None:
        if (lane := self._lane()) is not None:
            lane.driver.take_executor_away(lane.number)

    def _break_line(self) -> None:
        for lane in self._world.lanes:
            if lane.copier is not None and lane.copier.line is not None and not lane.frozen:
                lane.copier.line.close()

    def _lose_messages(self) -> None:
        self._world.loss = 0.1
        self._later(500, 2_000, self._lose_no_more)

    def _lose_no_more(self) -> None:
        self._world.loss = 0.0

    def _driver(self) -> SimDriver:
        active = self._world.election.active
        return active if active is not None and not active.dead else self._chance.choice(self._world.drivers)

    def _freeze_driver(self) -> None:
        driver = self._driver()
        driver.frozen = True
        self._later(300, 8_000, driver.thaw)

    def _keep_driver_busy(self) -> None:
        driver = self._driver()
        driver.busy = True
        self._later(300, 8_000, driver.come_round)

    def _cut_driver(self) -> None:
        driver = self._driver()
        driver.cut = True
        self._later(300, 8_000, driver.reconnect)

    def _kill_driver(self) -> None:
        driver = self._driver()
        driver.kill()
        self._later(300, 2_000, self._world.start_driver, driver.number)

    def _jump_lane(self) -> None:
        if (lane := self._lane()) is not None:
            lane.wall_jump_ms = self._chance.randint(-6, 6) * HOUR_MS

    def _jump_brokers(self) -> None:
        self._world.broker_jump_ms = self._chance.randint(-5, 5) * HOUR_MS

    # -- brokers of the target

    @property
    def _target(self) -> ModelPartition | None:
        return self._world.target.partition

    def _followers(self, partition: ModelPartition) -> list[int]:
        return [n for n in partition.replicas if n != partition.truth.leader and n not in partition.down]

    def _roll(self) -> None:
        if self._target is not None:
            for replica in self._target.replicas.values():
                replica.take_snapshot()

    def _bump_epoch(self) -> None:
        if self._target is not None and self._target.truth.leader not in self._target.down:
            self._world.target.elect(self._target, self._target.truth.leader)

    def _move_leader(self) -> None:
        if self._target is not None:
            self._elect_in_sync(self._target)

    def _elect_in_sync(self, partition: ModelPartition) -> None:
        """Nobody, if nobody else has all that was acknowledged."""
        able = [n for n in self._followers(partition) if n in partition.in_sync]
        if able and partition is self._target:
            self._world.target.elect(partition, self._chance.choice(able))

    def _restart_broker(self) -> None:
        partition = self._target
        if partition is None or partition.down:
            return
        node = self._chance.choice(list(partition.replicas))
        partition.die(node)
        if node == partition.truth.leader:
            self._later(100, 600, self._elect_in_sync, partition)
        else:
            self._later(300, 800, partition.shrink, node)
        self._later(700, 2_500, self._come_back, partition, node)

    def _come_back(self, partition: ModelPartition, node: int) -> None:
        if partition is self._target:
            partition.come_back(node)
            if partition.truth.leader == node:
                self._world.target.elect(partition, node)
            self._world.target.changed()

    def _lag(self, count: int) -> None:
        partition = self._target
        if partition is None:
            return
        for node in self._followers(partition)[:count]:
            self._world.target.lagging.add(node)
            self._later(300, 1_000, self._shrink, partition, node)
            self._later(600, 2_500, self._world.target.catch_up, node)

    def _shrink(self, partition: ModelPartition, node: int) -> None:
        if node in self._world.target.lagging:
            partition.shrink(node)
            self._world.target.changed()

    def _lag_for_unclean_election(self) -> None:
        partition = self._target
        if partition is None or not (followers := self._followers(partition)):
            return
        node = self._chance.choice(followers)
        self._world.target.lagging.add(node)
        self._later(100, 300, self._shrink, partition, node)
        self._later(301, 900, self._elect_unclean, partition, node)

    def _elect_unclean(self, partition: ModelPartition, node: int) -> None:
        self._world.target.lagging.discard(node)
        if partition is self._target and node not in partition.down:
            self._world.target.elect(partition, node)

    # -- the logs

    def _write_foreign(self) -> None:
        partition = self._target
        if partition is None or partition.truth.leader in partition.down:
            self._later(200, 400, self._write_foreign)
            return
        world = self._world
        stray = make_batch(
            [(None, b"stray", ())] * self._chance.randint(1, 2), timestamp=EPOCH_MS + world.now_ms
        )
        answer = partition.produce(partition.truth.leader, memoryview(stray))
        if not isinstance(answer, Waiting):  # too few replicas
            self._later(200, 400, self._write_foreign)
            return
        world.judge.foreign_written(partition, partition.leader_replica.end)
        world.target.appended()
        if self._chance.random() < 0.5:
            self._later(0, 10, self._kill_lane)

    def _recreate_target(self) -> None:
        self._world.target.delete()
        self._world.judge.target_recreated()
        self._later(0, 2_000, self._world.target.create)

    def _move_source(self) -> None:
        self._world.source.move_leader()

    def _truncate_source(self) -> None:
        self._world.source.cut(self._chance.random())

    def _recreate_source(self) -> None:
        self._world.judge.source_changed(0)
        self._world.source.delete()
        self._later(0, 2_000, self._world.source.create)
