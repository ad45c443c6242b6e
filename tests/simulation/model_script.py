"""A script of requests, performed by the model's leader: its answers in the words that a real broker's get.

What a broker's own clock says is told as nothing, where it is about now: both have one.
"""

from __future__ import annotations

from collections.abc import Iterable

from heliograph.wire.batch import BatchHeader
from heliograph.wire.error_codes import ErrorCode

from .answers import Answer, Deleting, ProducerView, Waiting
from .control_batch import EndMarker, read_marker
from .model_broker import ModelPartition
from .requests import (
    AskWithEpoch,
    DeleteRecords,
    Fetch,
    LetExpire,
    Look,
    Produce,
    Restart,
    Seen,
    Step,
    WriteMarkers,
    now_ms,
)

NOW_MS = 30_000  # a time so close to now is that of a step of the script
AS_NOW = 0


class ModelScript:
    def __init__(self, partition: ModelPartition) -> None:
        self.partition = partition

    @property
    def node(self) -> int:
        return self.partition.truth.leader

    def perform(self, step: Step, batch: memoryview | None = None) -> Seen:
        match step:
            case Produce(in_transaction=in_transaction):
                assert batch is not None
                return self.produce(self.node, batch, in_transaction=in_transaction)
            case WriteMarkers(markers=markers):
                return self.write_markers(self.node, markers)
            case Look():
                return self.look(self.node)
            case AskWithEpoch(epochs_off=off):
                return self.ask_with_epoch(self.node, self.partition.truth.epoch + off)
            case Fetch():
                return self.fetch(step)
            case DeleteRecords(before_offset=offset):
                return self.delete_records(offset)
            case LetExpire():
                self.partition.expire_producers(self.node)
            case Restart(killed=killed):
                self.partition.die(self.node)
                self.partition.come_back(self.node, forgets_start=killed)
        return ()

    def produce(self, node: int, batch: memoryview, *, in_transaction: bool = False) -> Seen:
        answer = self._settled(self.partition.produce(node, batch, in_transaction=in_transaction))
        return ErrorCode.name_of(answer.error), answer.offset

    def write_markers(self, node: int, markers: Iterable[EndMarker]) -> Seen:
        """One error for each producer id: that of its last marker."""
        answers = {
            each.producer_id: self._settled(self.partition.write_marker(node, each)) for each in markers
        }
        return tuple(sorted((number, ErrorCode.name_of(answer.error)) for number, answer in answers.items()))

    def _settled(self, answer: Answer | Waiting) -> Answer:
        if isinstance(answer, Answer):
            return answer
        return self.partition.outcome(answer) or Answer(ErrorCode.REQUEST_TIMED_OUT)

    def delete_records(self, before_offset: int) -> Seen:
        answer = self.partition.delete_records(self.node, before_offset)
        if isinstance(answer, Deleting):
            answer = self.partition.deleted(answer) or Answer(ErrorCode.REQUEST_TIMED_OUT)
        return ErrorCode.name_of(answer.error), answer.offset

    def look(self, node: int) -> Seen:
        partition = self.partition
        asked = (partition.log_start, partition.high_watermark, partition.stable_end, partition.log_end)
        return as_seen(partition.producers(node)), tuple(ask(node) for ask in asked)

    def ask_with_epoch(self, node: int, epoch: int) -> Seen:
        return self.partition.log_end(node, epoch), self.partition.fetch(node, 0, leader_epoch=epoch).error

    def fetch(self, step: Fetch) -> Seen:
        fetched = self.partition.fetch(
            self.node,
            step.offset,
            leader_epoch=self.partition.truth.epoch,
            last_fetched_epoch=step.last_fetched_epoch,
            max_bytes=step.max_bytes,
            committed=step.committed,
        )
        batches = tuple(batch_as_seen(header, data) for header, data in fetched.batches)
        ends = fetched.high_watermark, fetched.stable_end, fetched.start
        return fetched.error, ends, fetched.diverging, fetched.aborted, batches


def as_seen(producers: dict[int, ProducerView]) -> Seen:
    """A marker's time is the broker's."""

    def told(view: ProducerView) -> ProducerView:
        marked = view.coordinator_epoch >= 0 and abs(view.last_timestamp - now_ms()) < NOW_MS
        return view._replace(last_timestamp=AS_NOW) if marked else view

    return tuple(sorted((number, told(view)) for number, view in producers.items()))


def batch_as_seen(header: BatchHeader, data: bytes) -> object:
    if not header.is_control or abs(header.max_timestamp - now_ms()) >= NOW_MS:
        return header
    timeless = header._replace(base_timestamp=AS_NOW, max_timestamp=AS_NOW, crc=0)
    return timeless, read_marker(header, data)
