"""A coordinator of transactions in memory, as far as empty ones go: it lets one producer of a name in at a time.

Owns the faults: `begun` and `ended` are called once each has been executed, and may raise, or do what a coordinator
does of its own accord.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from heliograph.cluster.empty_transactions import FillProducer
from heliograph.model.errors import BrokerRefused, Disconnected, HeliographError
from heliograph.model.marker_label import MarkerLabel
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

from .memory_log import MemoryLog

Hook = Callable[[str], None]


@dataclass(slots=True)
class _Known:
    producer_id: int
    epoch: int = -1
    open_at: TopicPartition | None = None


class MemoryTransactions:
    def __init__(self, logs: Mapping[TopicPartition, MemoryLog]) -> None:
        self._logs = logs
        self._ids = itertools.count(4000)
        self.known: dict[str, _Known] = {}
        self.fails: HeliographError | None = None  # what every request ends with
        self.denied = False
        self.fences = 0
        self.begun: Hook = lambda _name: None
        self.ended: Hook = lambda _name: None

    async def fence(self, name: str) -> FillProducer:
        self._check()
        self.fences += 1
        known = self._of(name)
        known.epoch += 1
        self.abort(name)
        return FillProducer(known.producer_id, known.epoch)

    async def write(
        self, name: str, producer: FillProducer, where: TopicPartition, permit: Callable[[], bool]
    ) -> None:
        self.begin(name, producer, where, permit)
        self.begun(name)
        self._check(permit)
        self._compare(name, producer)
        self.abort(name)
        self.ended(name)

    def begin(
        self,
        name: str,
        producer: FillProducer,
        where: TopicPartition,
        permit: Callable[[], bool] = lambda: True,
    ) -> None:
        self._check(permit)
        self._compare(name, producer)
        self._of(name).open_at = where

    def abort(self, name: str) -> None:
        """What is open."""
        known = self._of(name)
        where, known.open_at = known.open_at, None
        if where is not None:
            self.write_marker(name, where)

    def time_out(self, name: str) -> None:
        """It was open for too long: who has begun it can do nothing more."""
        known = self._of(name)
        if known.open_at is not None:
            known.epoch += 1
            self.abort(name)

    def write_marker(self, name: str, where: TopicPartition) -> None:
        known = self._of(name)
        assert not self._logs[where].write_marker(MarkerLabel(known.producer_id, known.epoch, 0))

    def forget(self, name: str) -> None:
        """It was not used for a week."""
        del self.known[name]

    def _of(self, name: str) -> _Known:
        if name not in self.known:
            self.known[name] = _Known(next(self._ids))
        return self.known[name]

    def _compare(self, name: str, producer: FillProducer) -> None:
        known = self._of(name)
        if producer.producer_id != known.producer_id:
            raise BrokerRefused(name, code=ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if producer.epoch != known.epoch:
            raise BrokerRefused(name, code=ErrorCode.PRODUCER_FENCED)

    def _check(self, permit: Callable[[], bool] = lambda: True) -> None:
        if self.fails is not None:
            raise self.fails
        if self.denied:
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            raise BrokerRefused(
                "no transactions of yours", code=code, hint="grant WRITE on transactional ids"
            )
        if not permit():
            raise Disconnected("not permitted any more")
