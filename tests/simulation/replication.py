"""A partition's replicas on a few brokers: who leads, who has heard of it, who holds what. No clock of its own.

    controller's truth: leader, epoch, in-sync set          what each broker has heard of it: `heard`
    replica 1 (log, epochs, producers) ── fetched by ──▶ replica 2, replica 3: `replicate`, one fetch at a time

A broker that has not heard of an election goes on as leader of its old epoch: a zombie. What it appends is never on all
replicas, and is truncated when it hears. Whoever drives the model decides when a broker hears, fetches, dies, comes
back, forgets producers; the model owns what follows from it. What brokers answer is model_broker.py's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .answers import NO_EPOCH, Led
from .raw_batch import TopicRules
from .replica import Replica


@dataclass(slots=True)
class Leadership:
    """What a broker knows as leader of one epoch: of each follower, where its log ends and starts."""

    start_offset: int
    in_sync: frozenset[int]
    follower_ends: dict[int, int] = field(default_factory=dict)
    follower_starts: dict[int, int] = field(default_factory=dict)


class ReplicatedPartition:
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
        self.replicas = {node: self._new_replica() for node in brokers}
        self.down: set[int] = set()
        self.in_sync = frozenset(brokers)
        self.truth = Led(brokers[0], NO_EPOCH)
        self.unclean_epoch = NO_EPOCH  # of the last unclean election
        self.heard: dict[int, Led] = {}
        self._now_ms = now_ms
        self._leaderships: dict[int, Leadership] = {}
        self.elect(brokers[0], epoch=0)
        for node in brokers:
            self.hear(node)

    def _new_replica(self, start: int = 0) -> Replica:
        replica = Replica.beginning_at(start)
        replica.index.interval_bytes = self.rules.index_interval_bytes
        replica.segment_ms = self.rules.segment_ms
        return replica

    def begin_log_at(self, offset: int) -> None:
        """Nothing was written yet: what was before is gone already."""
        self.replicas = {node: self._new_replica(offset) for node in self.replicas}
        self.heard.clear()
        for node in self.replicas:
            self.hear(node)

    @property
    def leader_replica(self) -> Replica:
        return self.replicas[self.truth.leader]

    def start_seen_of(self, follower: int) -> int:
        """Where its log starts, as far as the leader has heard."""
        leadership = self._leaderships.get(self.truth.leader)
        return -1 if leadership is None else leadership.follower_starts.get(follower, -1)

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
            replica.epochs.begin(self.truth.epoch, replica.end)
            self._leaderships[node] = Leadership(replica.end, self.in_sync)
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
        if ours.end < theirs.start:  # what comes next is gone: it begins anew where the leader's log starts
            ours = self.replicas[follower] = self._new_replica(theirs.start)
        leadership = self._leaderships[leader]
        leadership.follower_ends[follower] = ours.end
        leadership.follower_starts[follower] = ours.start
        self._grow_in_sync(leader, follower)
        self._advance(leader)
        for stored in theirs.batches[theirs.index_of(ours.end) :]:
            ours.store(stored)
        ours.high_watermark = min(ours.end, max(ours.high_watermark, theirs.high_watermark))
        ours.delete_before(min(theirs.start, ours.high_watermark))

    def shrink(self, follower: int) -> None:
        """The leader drops a follower that lags from the in-sync set. A zombie's wish is refused."""
        leader = self.truth.leader
        if follower != leader and follower in self.in_sync and leader not in self.down:
            self.in_sync -= {follower}
            self._leaderships[leader].in_sync = self.in_sync
            self._advance(leader)

    def die(self, node: int) -> None:
        self.down.add(node)

    def come_back(self, node: int, *, forgets_start: bool = False) -> None:
        """Its log is read again; it follows, or leads if it is elected again. `forgets_start`: it was killed."""
        self.down.discard(node)
        replica = self.replicas[node]
        if forgets_start:
            replica.forget_start()
        else:
            replica.note_start()
        replica.restart(self._now_ms(), self.rules.producer_expiration_ms)
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
