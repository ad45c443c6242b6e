"""A deterministic model of one partition on a few brokers: what Kafka answers, with no I/O and no clock of its own.

Owns the answers to requests, and the order of the checks behind them; who leads and who holds what is replication.py's.
test_model_is_the_broker.py and its neighbours hold it against a real broker.
"""

from __future__ import annotations

from heliograph.model.errors import CorruptBatch
from heliograph.wire.batch import BatchHeader, read_header
from heliograph.wire.error_codes import ErrorCode

from .answers import NO_EPOCH, Answer, Deleting, Fetched, Led, ProducerView, Waiting
from .control_batch import EndMarker, marker_batch
from .leader_epochs import UNDEFINED
from .raw_batch import refusal, stamped
from .record_reader import records_of
from .replication import ReplicatedPartition

UP_TO_HIGH_WATERMARK = -1  # as DeleteRecords has it


class ModelPartition(ReplicatedPartition):
    # -- appends

    def produce(self, node: int, batch: memoryview, *, in_transaction: bool = False) -> Answer | Waiting:
        """acks=-1. `Waiting` is appended already; `outcome` tells what the broker will answer. `in_transaction`: the
        request names a transactional id, and the broker does not ask the coordinator whether it has one
        (transaction.partition.verification.enable=false)."""
        led = self.heard[node]
        try:
            header = read_header(batch)
        except CorruptBatch:
            return Answer(self._may_append(node) or ErrorCode.CORRUPT_MESSAGE)
        if header.is_transactional and not in_transaction:
            return Answer(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if code := self._may_append(node):
            return Answer(code)
        replica = self.replicas[node]
        error = refusal(header, batch, self.rules, self._now_ms())
        if error:
            return Answer(error)
        if self.rules.compacts and any(each.key is None for each in records_of(bytes(batch))):
            return Answer(ErrorCode.INVALID_RECORD)
        verdict = replica.producers.judge(header)
        if verdict.error:
            return Answer(verdict.error)
        if verdict.duplicate_of is not None:
            required = verdict.duplicate_of + header.last_offset_delta + 1
            there = replica.holding(verdict.duplicate_of)
            time = there.header.max_timestamp if there is not None else -1
            return Waiting(node, led.epoch, verdict.duplicate_of, required, time)
        return self._append(node, header, batch)

    def write_marker(self, node: int, marker: EndMarker) -> Answer | Waiting:
        """One marker of a WriteTxnMarkers: an append of its own, with the broker's clock."""
        if code := self._may_append(node):
            return Answer(code)
        if code := self.replicas[node].producers.judge_marker(marker):
            return Answer(code)
        batch = memoryview(marker_batch(marker, self._now_ms()))
        return self._append(node, read_header(batch), batch)

    def _may_append(self, node: int) -> int:
        if self.heard[node].leader != node:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        too_few = len(self._leaderships[node].in_sync) < self.rules.min_insync
        return ErrorCode.NOT_ENOUGH_REPLICAS if too_few else ErrorCode.NONE

    def _append(self, node: int, header: BatchHeader, batch: memoryview) -> Waiting:
        led = self.heard[node]
        append_time = self._now_ms() if self.rules.log_append_time else -1
        if append_time >= 0:
            header, batch = stamped(header, batch, append_time)
        stored = self.replicas[node].append(header, batch, led.epoch)
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

    # -- the log's start

    def delete_records(self, node: int, before_offset: int) -> Answer | Deleting:
        """`Deleting` is done at the leader; `deleted` tells when the others are."""
        led, replica = self.heard[node], self.replicas[node]
        if led.leader != node:
            return Answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if not self.rules.deletes:
            return Answer(ErrorCode.POLICY_VIOLATION)
        if before_offset == UP_TO_HIGH_WATERMARK:
            before_offset = replica.high_watermark
        if not 0 <= before_offset <= replica.high_watermark:
            return Answer(ErrorCode.OFFSET_OUT_OF_RANGE)
        replica.delete_before(before_offset)
        return Deleting(node, led.epoch, before_offset)

    def deleted(self, deleting: Deleting) -> Answer | None:
        """None: some replica has not heard of it. The answer is where the logs of all that are up start at least."""
        node = deleting.node
        if self.heard[node] != (node, deleting.epoch):
            return Answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        starts = self._leaderships[node].follower_starts
        others = [starts.get(each, -1) for each in self.replicas if each != node and each not in self.down]
        lowest = min([self.replicas[node].start, *others])
        return None if lowest < deleting.offset else Answer(ErrorCode.NONE, lowest)

    # -- questions

    def log_start(self, node: int, leader_epoch: int = NO_EPOCH) -> Answer:
        error = self.fenced(node, leader_epoch)
        return Answer(error) if error else Answer(error, self.replicas[node].start)

    def log_end(self, node: int, leader_epoch: int = NO_EPOCH) -> Answer:
        """ListOffsets(latest) with a replica id of one's own."""
        error = self.fenced(node, leader_epoch)
        return Answer(error) if error else Answer(error, self.replicas[node].end)

    def high_watermark(self, node: int, leader_epoch: int = NO_EPOCH) -> Answer:
        """ListOffsets(latest) of a consumer; a new leader does not know it yet."""
        return self._known(node, leader_epoch) or Answer(ErrorCode.NONE, self.replicas[node].high_watermark)

    def stable_end(self, node: int, leader_epoch: int = NO_EPOCH) -> Answer:
        """ListOffsets(latest) of a read_committed consumer."""
        return self._known(node, leader_epoch) or Answer(ErrorCode.NONE, self.replicas[node].stable_end)

    def _known(self, node: int, leader_epoch: int) -> Answer | None:
        """What is answered instead of the high watermark, if it cannot be told."""
        error = self.fenced(node, leader_epoch)
        if not error and self.replicas[node].high_watermark < self._leaderships[node].start_offset:
            error = ErrorCode.OFFSET_NOT_AVAILABLE
        return Answer(error) if error else None

    def producers(self, node: int) -> dict[int, ProducerView]:
        """DescribeProducers: any replica answers, from what it remembers itself."""
        return {
            number: ProducerView(
                entry.epoch,
                entry.last_sequence,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.transaction_start,
            )
            for number, entry in self.replicas[node].producers.entries.items()
        }

    def fetch(
        self,
        node: int,
        offset: int,
        *,
        leader_epoch: int = NO_EPOCH,
        last_fetched_epoch: int = NO_EPOCH,
        max_bytes: int = 1,
        committed: bool = False,
    ) -> Fetched:
        """A consumer's fetch (version 11 or later): a follower answers too, up to the high watermark it knows of."""
        error = self.fenced(node, leader_epoch, leader_only=False)
        replica = self.replicas[node]
        if error:
            return Fetched(error)
        stable_end = replica.stable_end
        if last_fetched_epoch != NO_EPOCH:
            at = replica.epochs.end_of(last_fetched_epoch, replica.end)
            if at.end == UNDEFINED or offset < replica.start:
                return Fetched(ErrorCode.OFFSET_OUT_OF_RANGE)
            if at.epoch < last_fetched_epoch or at.end < offset:
                return Fetched(ErrorCode.NONE, replica.high_watermark, replica.start, (), at, stable_end)
        if not replica.start <= offset <= replica.end:
            return Fetched(ErrorCode.OFFSET_OUT_OF_RANGE)
        limit = stable_end if committed else replica.high_watermark
        return Fetched(
            ErrorCode.NONE,
            replica.high_watermark,
            replica.start,
            replica.read(offset, limit, max_bytes),
            stable_end=stable_end,
            aborted=replica.aborted_in(offset, limit, max_bytes) if committed else (),
        )

    def fenced(self, node: int, leader_epoch: int, *, leader_only: bool = True) -> int:
        """Whether this broker answers somebody who believes in this epoch (NO_EPOCH: does not say)."""
        led: Led = self.heard[node]
        if leader_epoch != NO_EPOCH and leader_epoch != led.epoch:
            older = leader_epoch < led.epoch
            return ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if leader_only and led.leader != node else ErrorCode.NONE
