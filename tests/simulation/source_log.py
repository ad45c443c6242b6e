"""A source partition in a world: it grows, its leader moves, retention deletes its start, and it may be cut or begin
anew with other records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from heliograph.wire.batch import read_header

from .control_batch import EndMarker, marker_batch
from .model_broker import ModelPartition
from .model_topic import ModelTopic
from .plan import Content
from .producer_states import SEQUENCES
from .raw_batch import DAY_MS
from .replica import Stored
from .source_content import hole_before, made
from .source_transactions import HOLDER, STYLES, SourceProducers, in_transaction

if TYPE_CHECKING:
    from .sim_cluster import SimCluster


class SourceLog(ModelTopic):
    """`on_change()`: something is there to be fetched. `on_cut(offset)`: from there on the source is another one.
    `on_retention(offset)`: what is before it is about to go. `story`: what its producers' chances are drawn from."""

    def __init__(
        self,
        make: Callable[[str], ModelPartition],
        cluster: SimCluster,
        content: Content,
        *,
        story: str,
        committed: bool,
    ) -> None:
        super().__init__(make)
        self.on_change: Callable[[], None] = lambda: None
        self.on_cut: Callable[[int], None] = lambda _: None
        self.on_retention: Callable[[int], None] = lambda _: None
        self.committed = committed  # whether those who copy it read committed records only
        self._world = cluster.world
        self._content = content
        self._batches = content.batches
        self._next_batch = 0
        self._version = 0
        style = STYLES.get(content.transactions)
        self._producers = None if style is None else SourceProducers(style, story)
        self._holds = False
        if self.partition is not None and content.log_start:
            self.partition.begin_log_at(content.log_start)
        self._grow(content.rhythm.present)
        self._world.after(content.rhythm.every_s, self._keep_growing)

    @property
    def log(self) -> Sequence[Stored]:
        return self.partition.leader_replica.batches if self.partition is not None else ()

    @property
    def start(self) -> int:
        return self.partition.leader_replica.start if self.partition is not None else -1

    @property
    def readable_end(self) -> int:
        """Up to where there is something to copy."""
        if self.partition is None:
            return -1
        replica = self.partition.leader_replica
        return replica.stable_end if self.committed else replica.high_watermark

    @property
    def complete(self) -> bool:
        """What is open now stays open."""
        return self._next_batch >= self._batches and not self._holds

    @property
    def hangs(self) -> bool:
        """Whether a transaction holds the stable part's end, and nothing will change that."""
        partition = self.partition
        return self.complete and partition is not None and bool(partition.leader_replica.producers.open_at)

    def holding(self, offset: int) -> Stored | None:
        return None if self.partition is None else self.partition.leader_replica.holding(offset)

    # -- growing

    def _grow(self, count: int) -> None:
        partition = self.partition
        if partition is None:
            return
        end = min(self._next_batch + count, self._batches)
        for at in range(self._next_batch, end):
            self._write(partition, at, hole_before(self._content.kind, at))
        self._next_batch = end
        self._replicate(partition)

    def _write(self, partition: ModelPartition, at: int, hole: int) -> None:
        header, data = made(self._content.kind, at, self._version, self._content.codecs)
        replica, epoch, producers = partition.leader_replica, partition.truth.epoch, self._producers
        writer = producers.writer(at) if producers is not None else None
        if writer is not None:
            known = replica.producers.entries.get(writer)
            sequence = (known.last_sequence + 1) % SEQUENCES if known is not None else 0
            header, data = in_transaction(header, data, writer, sequence)
        replica.append(header, data, epoch, hole=hole)
        if writer == HOLDER:
            self._hold_open()
        if producers is not None:
            for marker in producers.ends(at, replica.producers.open_at, last=at == self._batches - 1):
                self._end_transaction(partition, marker)

    def _end_transaction(self, partition: ModelPartition, marker: EndMarker) -> None:
        batch = memoryview(marker_batch(marker, self._world.wall_ms))
        partition.leader_replica.append(read_header(batch), batch, partition.truth.epoch)

    def _hold_open(self) -> None:
        assert self._producers is not None
        held_s = self._producers.held_s()
        if held_s is not None:
            self._holds = True
            self._world.after(held_s, self._let_go)

    def _let_go(self) -> None:
        """Also where the log was cut in between: then it ends nothing."""
        partition, producers = self.partition, self._producers
        self._holds = False
        if partition is not None and producers is not None:
            first_offset = partition.leader_replica.producers.open_at.get(HOLDER, -1)
            self._end_transaction(partition, producers.end(HOLDER, first_offset))
            self._replicate(partition)
            self.on_change()

    def lengthen(self, count: int) -> None:
        """It grows by so much more than was planned, at once."""
        self._batches += count
        self._grow(count)
        self.on_change()

    def _replicate(self, partition: ModelPartition) -> None:
        """At once: how followers lag is the target's story."""
        for _ in range(2):
            for node in partition.replicas:
                partition.replicate(node)
        partition.leader_replica.high_watermark = partition.leader_replica.end

    def _keep_growing(self) -> None:
        if not self.complete:
            self._grow(self._content.rhythm.count)
            self._world.after(self._content.rhythm.every_s, self._keep_growing)
            self.on_change()

    # -- what becomes of it

    def move_leader(self, node: int) -> None:
        partition = self.partition
        if partition is not None and node in partition.replicas and node not in partition.down:
            partition.elect(node)
            for each in partition.replicas:
                partition.hear(each)
            self._replicate(partition)
            self.on_change()

    def retain_from(self, offset: int) -> None:
        """Retention has deleted all that is before it."""
        partition = self.partition
        if partition is not None and partition.leader_replica.start < offset:
            self.on_retention(offset)
            for replica in partition.replicas.values():
                replica.delete_before(offset)
                replica.note_start()
            self.on_change()

    def cut(self, share: float, *, regrows: bool) -> None:
        """An unclean election: the end of the log is gone, and something else is there, or grows there."""
        if self.partition is None:
            return
        held = list(self.log)
        kept = int(share * len(held))
        end = held[kept - 1].header.next_offset if kept else self.partition.leader_replica.start
        self.on_cut(end)
        data_kept = self._next_batch - sum(not each.header.is_control for each in held[kept:])
        for replica in self.partition.replicas.values():
            replica.truncate(end, self._world.wall_ms, DAY_MS)
            replica.high_watermark = replica.end
        self.partition.elect(self.partition.truth.leader)
        for node in self.partition.replicas:
            self.partition.hear(node)
        self._begin_again(min(data_kept, self._batches - 6))
        if regrows:
            self._grow(len(held) - kept + 1)  # the new leader had it already
        self.on_change()

    def create(self) -> None:
        super().create()
        self._begin_again(0)
        self.on_change()

    def _begin_again(self, next_batch: int) -> None:
        self._next_batch, self._version = next_batch, 1
        self._world.after(self._content.rhythm.every_s, self._keep_growing)
