"""Faults of brokers and of the logs themselves, made to happen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from heliograph.model.errors import Disconnected
from tests.wire.batches import make_batch

from .answers import Waiting
from .gap_plan import ACCEPTED_LOSS
from .group_side import SimGroup
from .judge import PartitionJudge
from .model_broker import ModelPartition
from .sim_cluster import SimCluster
from .source_content import MOST_BYTES
from .source_log import SourceLog
from .target_log import TargetLog

if TYPE_CHECKING:
    from .world import World

INSIDE_EVERY = 3  # one in so many batches that a log may start inside of


class BrokerFaults:
    """`kill_lane`: who writes where it must not may be followed by a lane that begins anew."""

    def __init__(self, world: World, kill_lane: Callable[[], None]) -> None:
        self._world = world
        self._chance = world.chance
        self._kill_lane = kill_lane
        self._target_cluster = world.clusters["nyc"]
        self.kinds: dict[str, Callable[[], None]] = {
            "source's leader moves": self._move_source,
            "source's connections break": self._break_fetches,
            "fetch sessions are evicted": self._evict_sessions,
            "segment is rolled": self._roll,
            "broker restarts": self._restart_broker,
            "broker freezes": self._freeze_broker,
            "leader's epoch grows": self._bump_epoch,
            "leader moves": self._move_leader,
            "unclean election": self._lag_for_unclean_election,
            "follower lags": partial(self._lag, 1),
            "followers lag": partial(self._lag, 2),
            "follower comes back shorter": partial(self._restart_broker, shorter=True),
            "foreign writer": self._write_foreign,
            "target recreated": self._recreate_target,
            "target stamps its time": self._stamp_target,
            "source truncated": self._truncate_source,
            "source recreated": self._recreate_source,
            "rights are lost": self._take_rights,
            "target takes less": self._lower_sizes,
            "source's retention": self._retain,
            "retention overtakes": self._overtake,
            ACCEPTED_LOSS: self._lose_some,
        }

    def _later(self, least_s: float, most_s: float, do: Callable[..., None], *what: object) -> None:
        self._world.after(self._chance.uniform(least_s, most_s), do, *what)

    # -- brokers of the target

    def _log(self) -> tuple[TargetLog, ModelPartition] | None:
        there = [judge.target for judge in self._world.judges if judge.target.partition is not None]
        if not there:
            return None
        log = self._chance.choice(there)
        assert log.partition is not None
        return log, log.partition

    def _followers(self, partition: ModelPartition) -> list[int]:
        return [n for n in partition.replicas if n != partition.truth.leader and n not in partition.down]

    def _roll(self) -> None:
        for judge in self._world.judges:
            if judge.target.partition is not None:
                for replica in judge.target.partition.replicas.values():
                    replica.take_snapshot()

    def _bump_epoch(self) -> None:
        if (found := self._log()) is not None and found[1].truth.leader not in found[1].down:
            found[0].elect(found[1], found[1].truth.leader)

    def _move_leader(self) -> None:
        if (found := self._log()) is not None:
            self._elect_in_sync(*found)

    def _elect_in_sync(self, log: TargetLog, partition: ModelPartition) -> None:
        """Nobody, if nobody else has all that was acknowledged."""
        able = [n for n in self._followers(partition) if n in partition.in_sync]
        if able and partition is log.partition:
            log.elect(partition, self._chance.choice(able))

    def _restart_broker(self, *, shorter: bool = False) -> None:
        """`shorter`: with a part of its logs lost. Of what it led alone that is an unclean election."""
        cluster = self._target_cluster
        up = [node for node in cluster.answering if not cluster.down]
        if not up:
            return
        node = self._chance.choice(up)
        self._world.tell("broker", node, "goes down")
        cluster.down.add(node)
        for judge in self._world.judges:
            log, partition = judge.target, judge.target.partition
            if partition is None or node not in partition.replicas:
                continue
            log.changed()
            if node == partition.truth.leader:
                self._later(0.5, 5.0, self._elect_in_sync, log, partition)
            else:
                self._later(1.0, 6.0, self._shrink_down, log, partition, node)
        self._later(*self._world.plan.conditions.down_s, self.come_back, cluster, node, shorter)
        for group in self._world.groups:
            if group.node == node:
                self._later(0.5, 5.0, group.fail_over)

    def _shrink_down(self, log: TargetLog, partition: ModelPartition, node: int) -> None:
        if node in partition.down and partition is log.partition:
            partition.shrink(node)
            log.changed()

    def come_back(self, cluster: SimCluster, node: int, shorter: bool = False) -> None:
        if node not in cluster.down:
            return
        self._world.tell("broker", node, "is back")
        cluster.down.discard(node)
        if not self._world.mended:
            cluster.unaware_until = self._world.now + self._chance.uniform(
                *self._world.plan.conditions.unaware_s
            )
        for judge in self._world.judges:
            partition = judge.target.partition
            if partition is None or node not in partition.replicas:
                continue
            replica = partition.replicas[node]
            if shorter and partition.truth.leader != node and replica.batches:
                kept = self._chance.randrange(len(replica.batches) + 1)
                end = replica.batches[kept - 1].header.next_offset if kept else 0
                replica.truncate(end, self._world.wall_ms, partition.rules.producer_expiration_ms)
            judge.target.come_back(node)

    def _freeze_broker(self) -> None:
        nodes = self._target_cluster.answering
        if not nodes:
            return
        node = self._chance.choice(nodes)
        self._world.tell("broker", node, "freezes")
        self._target_cluster.freeze(node)
        self._later(*self._world.plan.conditions.frozen_s, self._thaw_broker, node)
        for judge in self._world.judges:
            log, partition = judge.target, judge.target.partition
            if partition is not None and partition.truth.leader == node and self._chance.random() < 0.5:
                self._later(1.0, 8.0, self._replace_frozen, log, partition, node)
        for group in self._world.groups:
            if group.node == node and self._chance.random() < 0.5:
                self._later(1.0, 8.0, self._replace_coordinator, group, node)

    def _replace_coordinator(self, group: SimGroup, node: int) -> None:
        if self._target_cluster.is_frozen(node) and group.node == node:
            group.fail_over()

    def _replace_frozen(self, log: TargetLog, partition: ModelPartition, node: int) -> None:
        if self._target_cluster.is_frozen(node) and partition.truth.leader == node:
            self._elect_in_sync(log, partition)
            if partition.truth.leader != node:
                self._shrink_fenced(log, partition, node)

    def _shrink_fenced(self, log: TargetLog, partition: ModelPartition, node: int) -> None:
        """The controller takes it for dead."""
        partition.shrink(node)
        log.changed()

    def _thaw_broker(self, node: int) -> None:
        self._target_cluster.thaw(node)
        for judge in self._world.judges:
            judge.target.changed()

    def _lag(self, count: int) -> None:
        if (found := self._log()) is None:
            return
        log, partition = found
        for node in self._followers(partition)[:count]:
            log.lagging.add(node)
            self._later(0.5, 4.0, self._shrink, log, partition, node)
            self._later(2.0, 15.0, log.catch_up, node)

    def _shrink(self, log: TargetLog, partition: ModelPartition, node: int) -> None:
        if node in log.lagging and partition is log.partition:
            partition.shrink(node)
            log.changed()

    def _lag_for_unclean_election(self) -> None:
        if (found := self._log()) is None or not (followers := self._followers(found[1])):
            return
        log, partition = found
        node = self._chance.choice(followers)
        log.lagging.add(node)
        self._later(0.2, 1.0, self._shrink, log, partition, node)
        self._later(1.0, 6.0, self._elect_unclean, log, partition, node)

    def _elect_unclean(self, log: TargetLog, partition: ModelPartition, node: int) -> None:
        log.lagging.discard(node)
        if partition is log.partition and node not in partition.down:
            log.elect(partition, node)

    # -- the logs

    @property
    def _loud(self) -> PartitionJudge:
        return self._world.judges[self._world.plan.loud_at]

    def _siblings(self) -> list[PartitionJudge]:
        """All partitions of the topic."""
        return [judge for judge in self._world.judges if judge.key.link == self._loud.key.link]

    def _write_foreign(self) -> None:
        world, judge = self._world, self._loud
        partition = judge.target.partition
        if partition is None or partition.truth.leader in partition.down:
            self._later(0.2, 0.4, self._write_foreign)
            return
        stray = make_batch([(None, b"stray", ())] * self._chance.randint(1, 2), timestamp=world.wall_ms)
        answer = partition.produce(partition.truth.leader, memoryview(stray))
        if not isinstance(answer, Waiting):  # too few replicas
            self._later(0.2, 0.4, self._write_foreign)
            return
        judge.foreign_written(partition, partition.leader_replica.end)
        judge.target.appended()
        if self._chance.random() < 0.5:
            self._later(0.0, 0.1, self._kill_lane)

    def _recreate_target(self) -> None:
        topic = self._target_cluster.topics[self._loud.key.target_topic]
        topic.delete()
        for group in self._world.groups:
            group.forget(topic.name)
        for judge in self._siblings():
            judge.target_recreated()
        self._later(*self._world.plan.conditions.gone_s, self._create_target)

    def _create_target(self) -> None:
        topic = self._target_cluster.topics[self._loud.key.target_topic]
        if not topic.exists:
            topic.create()

    def _stamp_target(self) -> None:
        """Somebody switches message.timestamp.type of the topic; it stays so when brokers begin anew."""
        for judge in self._siblings():
            partition = judge.target.partition
            if partition is None:
                self._later(0.2, 0.4, self._stamp_target)
                return
            partition.rules = replace(partition.rules, log_append_time=True)
            judge.target_stamps()

    def _lower_sizes(self) -> None:
        """Somebody lowers max.message.bytes of a target topic; every batch of the source is small enough still."""
        name = self._chance.choice(list(self._target_cluster.topics))
        sizes = self._world.sizes[name] = replace(self._world.sizes[name], max_message_bytes=MOST_BYTES)
        for log in self._target_cluster.topics[name].logs:
            if log.partition is not None:
                log.partition.rules = replace(log.partition.rules, sizes=sizes)

    def _source(self) -> SourceLog:
        return self._chance.choice(self._world.judges).source

    def _move_source(self) -> None:
        source = self._source()
        if source.partition is not None:
            source.move_leader(self._chance.choice(list(source.partition.replicas)))

    def _break_fetches(self) -> None:
        for fetch in list(self._world.fetches):
            fetch.end(Disconnected("the connection broke"))

    def _evict_sessions(self) -> None:
        for cluster in self._world.clusters.values():
            for sessions in cluster.sessions.values():
                sessions.forget_all()

    def _retain(self) -> None:
        """Of what was copied the source deletes some."""
        judge = self._chance.choice(self._world.judges)
        borders = self._borders(judge, 0, judge.copied_to)
        if borders:
            judge.source.retain_from(self._chance.choice(borders))

    def _overtake(self) -> None:
        """The source deletes what was not copied yet, and all before it."""
        if not self._overtake_one(self._loud):
            self._later(0.2, 0.4, self._overtake)

    def _lose_some(self) -> None:
        """The same, of a partition that goes on without it; where there is something to lose."""
        judges = [each for each in self._world.judges if each.continues and each.kind != "alike"]
        self._chance.shuffle(judges)
        any(map(self._overtake_one, judges))

    def _overtake_one(self, judge: PartitionJudge) -> bool:
        source = judge.source
        borders = self._borders(judge, judge.copied_to + 1, source.readable_end)
        if judge.copied_to <= source.start or not borders:
            return False
        judge.records_lost()
        source.retain_from(self._chance.choice(borders))
        return True

    def _borders(self, judge: PartitionJudge, first: int, last: int) -> list[int]:
        """Where its log may start: between batches, and inside of some."""
        ends = [each.header.next_offset for each in judge.source.log]
        inside = [end - 1 for end in ends if end % INSIDE_EVERY == 0]
        return [offset for offset in sorted({*ends, *inside}) if first <= offset <= last]

    def _truncate_source(self) -> None:
        self._loud.source.cut(self._chance.random(), regrows=self._world.plan.regrows_at_once)

    def _recreate_source(self) -> None:
        for judge in self._siblings():
            judge.source_changed(0)
        topic = self._world.clusters[self._source_cluster].topics[self._loud.key.source_topic]
        topic.delete()
        for fetch in list(self._world.fetches):
            fetch.look()
        self._later(*self._world.plan.conditions.gone_s, topic.create)

    def _take_rights(self) -> None:
        """Somebody deletes what allows the copier to use the topic, of the source or of the target."""
        cluster = self._chance.choice((self._source_cluster, self._target_cluster.name))
        self._world.clusters[cluster].topics[self._loud.key.source_topic].permitted = False
        for judge in self._siblings():
            judge.rights_lost()
        for fetch in list(self._world.fetches):
            fetch.look()

    @property
    def _source_cluster(self) -> str:
        return self._loud.key.link.split("-")[0]
