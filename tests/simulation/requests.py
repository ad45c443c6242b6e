"""One script of requests, as data, and what the model answers to it: the same words that a real broker's answers get.

Owns the steps and their batches. Must not know sockets: real_partition.py performs the same steps on a real broker.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from heliograph.wire.error_codes import ErrorCode
from tests.wire.batches import make_batch

from .model_broker import NO_EPOCH, Answer, ModelPartition
from .producer_states import SEQUENCES
from .raw_batch import DAY_MS, HOUR_MS

MAX_MESSAGE_BYTES = 2_000
IDS = (0x4800000000000001, 0x4800000000000002, -1)
FLAWS = {"base_offset", "holes", "control", "crc", "large", "future", "no_sequence"}
Seen = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Produce:
    producer_id: int = IDS[0]
    epoch: int = 0
    sequence: int = 0
    count: int = 1
    age_ms: int = 0
    flaw: str = ""

    def batch(self, now_ms: int) -> bytearray:
        timestamp = now_ms + 2 * HOUR_MS if self.flaw == "future" else now_ms - self.age_ms
        value = b"x" * (MAX_MESSAGE_BYTES if self.flaw == "large" else 10)
        built = make_batch(
            [(None, value, ())] * self.count,
            base_offset=7 if self.flaw == "base_offset" else 0,
            timestamp=timestamp,
            attributes=0x20 if self.flaw == "control" else 0,
            producer_id=self.producer_id,
            producer_epoch=self.epoch if self.producer_id >= 0 else -1,
            base_sequence=-1 if self.flaw == "no_sequence" or self.producer_id < 0 else self.sequence,
            last_offset_delta=self.count if self.flaw == "holes" else None,
        )
        if self.flaw == "crc":
            built[-1] ^= 1
        return built


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """DescribeProducers, log start, high watermark and log end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskWithEpoch:
    """Log end and a fetch by somebody whose leader epoch is behind (-1) or ahead (1)."""

    epochs_off: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    offset: int
    last_fetched_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecords:
    before_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LetExpire:
    """The periodic check passes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Down and up again. Killed, a broker may come back with an older log start: it notes that once a minute."""

    killed: bool = True


Step = Produce | Look | AskWithEpoch | Fetch | DeleteRecords | LetExpire | Restart


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def random_script(seed: int, length: int = 60) -> list[Step]:
    """Produces that mostly nearly fit, so that every row of the table is met, with looks in between."""
    chance = random.Random(seed)
    script: list[Step] = []
    sent: list[Produce] = []
    while len(script) < length:
        kind = chance.random()
        if kind < 0.7:
            script.append(_random_produce(chance, sent))
        elif kind < 0.9:
            script.append(Look())
        elif kind < 0.95:
            script.append(AskWithEpoch(epochs_off=chance.choice((-1, 1))))
        else:
            script.append(Fetch(offset=chance.randrange(20), last_fetched_epoch=chance.choice((-1, 0, 0, 1))))
    return [*script, Look()]


def _random_produce(chance: random.Random, sent: list[Produce]) -> Produce:
    if chance.random() < 0.15:
        return Produce(sequence=0, count=chance.randint(1, 3), flaw=chance.choice(sorted(FLAWS)))
    producer_id, count = chance.choice(IDS), chance.randint(1, 3)
    before = [each for each in sent if each.producer_id == producer_id]
    if not before:
        sequence = chance.choice((0, 5, SEQUENCES - 4))
        produce = Produce(producer_id=producer_id, sequence=sequence, count=count)
    elif chance.random() < 0.3:
        return chance.choice(before[-8:])
    else:
        last = before[-1]
        off_by = chance.choice((0, 0, 0, 0, 1, -1))
        epoch = last.epoch + chance.choice((0,) * 12 + (1, -1))
        sequence = (last.sequence + last.count + off_by) % SEQUENCES
        if epoch != last.epoch and chance.random() < 0.6:
            sequence = 0
        produce = Produce(producer_id=producer_id, epoch=max(epoch, 0), sequence=sequence, count=count)
        if off_by or epoch < last.epoch or (epoch > last.epoch and sequence):
            return produce  # refused, so that the next one is built on what was there before
    sent.append(produce)
    return produce


class ModelScript:
    """Performs a script on the model's leader."""

    def __init__(self, partition: ModelPartition) -> None:
        self.partition = partition

    @property
    def node(self) -> int:
        return self.partition.truth.leader

    def perform(self, step: Step, batch: memoryview | None = None) -> Seen:
        match step:
            case Produce():
                assert batch is not None
                return self.produce(self.node, batch)
            case Look():
                return self.look(self.node)
            case AskWithEpoch(epochs_off=off):
                return self.ask_with_epoch(self.node, self.partition.truth.epoch + off)
            case Fetch(offset=offset, last_fetched_epoch=epoch):
                return self.fetch(offset, epoch)
            case DeleteRecords(before_offset=offset):
                self.partition.leader_replica.delete_before(offset)
            case LetExpire():
                self.partition.expire_producers(self.node)
            case Restart():
                self.partition.die(self.node)
                self.partition.come_back(self.node)
        return ()

    def produce(self, node: int, batch: memoryview) -> Seen:
        answer = self.partition.produce(node, batch)
        if not isinstance(answer, Answer):
            answer = self.partition.outcome(answer) or Answer(ErrorCode.REQUEST_TIMED_OUT)
        return ErrorCode.name_of(answer.error), answer.offset

    def look(self, node: int) -> Seen:
        partition = self.partition
        ends = tuple(ask(node) for ask in (partition.log_start, partition.high_watermark, partition.log_end))
        return tuple(sorted(partition.producers(node).items())), ends

    def ask_with_epoch(self, node: int, epoch: int) -> Seen:
        return self.partition.log_end(node, epoch), self.partition.fetch(node, 0, leader_epoch=epoch).error

    def fetch(self, offset: int, last_fetched_epoch: int) -> Seen:
        fetched = self.partition.fetch(
            self.node, offset, leader_epoch=self.partition.truth.epoch, last_fetched_epoch=last_fetched_epoch
        )
        first = fetched.batches[0].header if fetched.batches else None
        return fetched.error, fetched.high_watermark, fetched.diverging, first


OLD_MS = 3 * DAY_MS
