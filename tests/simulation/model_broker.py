"""A deterministic model of one partition on a few brokers: what Kafka answers, with no I/O and no clock of its own.

    controller's truth: leader, epoch, in-sync set          what each broker has heard of it: `heard`
    replica 1 (log, epochs, producers) ── fetched by ──▶ replica 2, replica 3: `replicate`, one fetch at a time

A broker that has not heard of an election goes on as leader of its old epoch: a zombie. What it appends is never on all
replicas, and is truncated when it hears. Whoever drives the model decides when a broker hears, fetches, dies, comes
back, forgets producers; the model owns what follows from it. test_model_is_the_broker.py holds it against a real one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from heliograph.model.errors import CorruptBatch
from heliograph.wire.batch import read_header
from heliograph.wire.error_codes import ErrorCode

from .raw_batch import TopicRules, refusal, stamped
from .replica import UNDEFINED, EpochEnd, Replica, Stored

NO_EPOCH = -1


class Led(NamedTuple):
    """Who leads, as somebody believes."""

    leader: int
    epoch: int


class Answer(NamedTuple):
    error: int
    offset: int = -1


class Waiting(NamedTuple):
    """Appended, or a duplicate: acknowledged once all in-sync replicas hold everything below `required`."""

    node: int
    epoch: int
    base_offset: int
    required: int
    append_time: int = -1  # of a duplicate, and of a batch that the broker has written its own time into


class Fetched(NamedTuple):
    error: int
    high_watermark: int = -1
    start: int = -1
    batches: Sequence[Stored] = ()
    diverging: EpochEnd | None = None


class ProducerView(NamedTuple):
    epoch: int
    last_sequence: int
    last_timestamp: int


@dataclass(slots=True)
class _Leadership:
    """What a broker knows as leader of one epoch."""

    start_offset: int
    in_sync: frozenset[int]
    follower_ends: dict[int, int] = field(default_factory=dict)


class ModelPartition:
    def __init__(
        self,
        topic_id: str,
        *,
        brokers: Sequence[int] = (1,),
        rules: TopicRules | None = None,
        now_ms: Callable[[], int],
    ) -> None:
        self.topic_id = topic_id
        self.rules = rules or TopicRules()
        self.replicas = {node: Replica() for node in brokers}
        self.down: set[int] = set()
        self.in_sync = frozenset(brokers)
        self.truth = Led(brokers[0], NO_EPOCH)
        self.unclean_epoch = NO_EPOCH  # of the last unclean election
        self.heard: dict[int, Led] = {}
        self._now_ms = now_ms
        self._leaderships: dict[int, _Leadership] = {}
        self.elect(brokers[0], epoch=0)
        for node in brokers:
            self.hear(node)

    @property
    def leader_replica(self) -> Replica:
        return self.replicas[self.truth.leader]

    # -- what the controller and the brokers do

    def elect(self, node: int, *, epoch: int | None = None) -> None:
        """A new leader, at once. One outside the in-sync set is an unclean election: what only others had is lost."""
        alive = frozenset(each for each in self.in_sync if each not in self.down)
        self.in_sync = alive if node in alive else frozenset({node})
        self.truth = Led(node, self.truth.epoch + 1 if epoch is None else epoch)
        if node not in alive:
            self.unclean_epoch = self.truth.epoch
        self.hear(node)

    def hear(self, node: int) -> None:
        if self.heard.get(node) == self.truth:
            return
        self.heard[node] = self.truth
        self._leaderships.pop(node, None)
        if self.truth.leader == node:
            replica = self.replicas[node]
            replica.begin_epoch(self.truth.epoch)
            self._leaderships[node] = _Leadership(replica.end, self.in_sync)
            self._advance(node)

    def replicate(self, follower: int) -> None:
        """One fetch of a follower: it tells the leader how far it is, and takes all that the leader has."""
        leader, epoch = self.heard[follower]
        alike = self.heard.get(leader) == (leader, epoch)
        if follower == leader or not alike or self.down & {follower, leader}:
            return
        ours, theirs = self.replicas[follower], self.replicas[leader]
        common = ours.common_end(theirs)
        if common < ours.end:
            ours.truncate(common, self._now_ms(), self.rules.producer_expiration_ms)
        leadership = self._leaderships[leader]
        leadership.follower_ends[follower] = ours.end
        self._grow_in_sync(leader, follower)
        self._advance(leader)
        for stored in theirs.batches[theirs.index_of(ours.end) :]:
            ours.store(stored)
        ours.high_watermark = min(ours.end, max(ours.high_watermark, theirs.high_watermark))

    def shrink(self, follower: int) -> None:
        """The leader drops a follower that lags from the in-sync set. A zombie's wish is refused."""
        leader = self.truth.leader
        if follower != leader and follower in self.in_sync and leader not in self.down:
            self.in_sync -= {follower}
            self._leaderships[leader].in_sync = self.in_sync
            self._advance(leader)

    def die(self, node: int) -> None:
        self.down.add(node)

    def come_back(self, node: int) -> None:
        """Its log is read again; it follows, or leads if it is elected again."""
        self.down.discard(node)
        self.replicas[node].restart(self._now_ms(), self.rules.producer_expiration_ms)
        self.heard.pop(node, None)
        self.hear(node)

    def expire_producers(self, node: int) -> None:
        """The periodic check of one broker."""
        self.replicas[node].producers.expire(self._now_ms(), self.rules.producer_expiration_ms)

    def _grow_in_sync(self, leader: int, follower: int) -> None:
        leadership = self._leaderships[leader]
        caught_up = leadership.follower_ends[follower] >= max(
            self.replicas[leader].high_watermark, leadership.start_offset
        )
        if self.truth.leader == leader and caught_up and follower not in self.in_sync:
            self.in_sync |= {follower}
            leadership.in_sync = self.in_sync

    def _advance(self, leader: int) -> None:
        """The high watermark is what every in-sync replica is known to have; it stands still with too few of them."""
        leadership, replica = self._leaderships[leader], self.replicas[leader]
        if len(leadership.in_sync) < self.rules.min_insync:
            return
        ends = [leadership.follower_ends.get(each, 0) for each in leadership.in_sync if each != leader]
        replica.high_watermark = max(replica.high_watermark, min([replica.end, *ends]))

    # -- requests

    def produce(self, node: int, batch: memoryview) -> Answer | Waiting:
        """acks=-1. `Waiting` is appended already; `outcome` tells what the broker will answer."""
        led = self.heard[node]
        if led.leader != node:
            return Answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if len(self._leaderships[node].in_sync) < self.rules.min_insync:
            return Answer(ErrorCode.NOT_ENOUGH_REPLICAS)
        try:
            header = read_header(batch)
        except CorruptBatch:
            return Answer(ErrorCode.CORRUPT_MESSAGE)
        replica = self.replicas[node]
        error = refusal(header, batch, self.rules, self._now_ms())
        if error:
            return Answer(error)
        verdict = replica.producers.judge(header)
        if verdict.error:
            return Answer(verdict.error)
        if verdict.duplicate_of is not None:
            required = verdict.duplicate_of + header.last_offset_delta + 1
            there = replica.holding(verdict.duplicate_of)
            time = there.header.max_timestamp if there is not None else -1
            return Waiting(node, led.epoch, verdict.duplicate_of, required, time)
        append_time = self._now_ms() if self.rules.log_append_time else -1
        if append_time >= 0:
            header, batch = stamped(header, batch, append_time)
        stored = replica.append(header, batch, led.epoch)
        self._advance(node)
        return Waiting(node, led.epoch, stored.header.base_offset, stored.header.next_offset, append_time)

    def outcome(self, waiting: Waiting) -> Answer | None:
        """None: the followers are not there yet; whoever waits too long is told REQUEST_TIMED_OUT."""
        if self.heard[waiting.node] != (waiting.node, waiting.epoch):
            return Answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self.replicas[waiting.node].high_watermark < waiting.required:
            return None
        if len(self._leaderships[waiting.node].in_sync) < self.rules.min_insync:
            return Answer(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return Answer(ErrorCode.NONE, waiting.base_offset)

    def log_start(self, node: int, leader_epoch: int = NO_EPOCH) -> Answer:
        error = self.fenced(node, leader_epoch)
        return Answer(error) if error else Answer(error, self.replicas[node].start)

    def log_end(self, node: int, leader_epoch: int = NO_EPOCH) -> Answer:
        """ListOffsets(latest) with a replica id of one's own."""
        error = self.fenced(node, leader_epoch)
        return Answer(error) if error else Answer(error, self.replicas[node].end)

    def high_watermark(self, node: int, leader_epoch: int = NO_EPOCH) -> Answer:
        """ListOffsets(latest) of a consumer; a new leader does not know it yet."""
        error = self.fenced(node, leader_epoch)
        if error:
            return Answer(error)
        high_watermark = self.replicas[node].high_watermark
        if high_watermark < self._leaderships[node].start_offset:
            return Answer(ErrorCode.OFFSET_NOT_AVAILABLE)
        return Answer(ErrorCode.NONE, high_watermark)

    def producers(self, node: int) -> dict[int, ProducerView]:
        """DescribeProducers: any replica answers, from what it remembers itself."""
        return {
            producer_id: ProducerView(entry.epoch, entry.last_sequence, entry.last_timestamp)
            for producer_id, entry in self.replicas[node].producers.entries.items()
        }

    def fetch(
        self,
        node: int,
        offset: int,
        *,
        leader_epoch: int = NO_EPOCH,
        last_fetched_epoch: int = NO_EPOCH,
        max_bytes: int = 1,
    ) -> Fetched:
        """A consumer's fetch (version 11 or later): a follower answers too, up to the high watermark it knows of."""
        error = self.fenced(node, leader_epoch, leader_only=False)
        replica = self.replicas[node]
        if error:
            return Fetched(error)
        if last_fetched_epoch != NO_EPOCH:
            at = replica.end_of_epoch(last_fetched_epoch)
            if at.end == UNDEFINED:
                return Fetched(ErrorCode.OFFSET_OUT_OF_RANGE)
            if at.epoch < last_fetched_epoch or at.end < offset:
                return Fetched(ErrorCode.NONE, replica.high_watermark, replica.start, (), at)
        if not replica.start <= offset <= replica.end:
            return Fetched(ErrorCode.OFFSET_OUT_OF_RANGE)
        found = replica.read(offset, replica.high_watermark, max_bytes)
        return Fetched(ErrorCode.NONE, replica.high_watermark, replica.start, found)

    def fenced(self, node: int, leader_epoch: int, *, leader_only: bool = True) -> int:
        """Whether this broker answers somebody who believes in this epoch (NO_EPOCH: does not say)."""
        led = self.heard[node]
        if leader_epoch != NO_EPOCH and leader_epoch != led.epoch:
            older = leader_epoch < led.epoch
            return ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if leader_only and led.leader != node else ErrorCode.NONE
