"""Transactions of several producers that lie mixed in one partition, by librdkafka.

Owns the order in which batches and markers are written. Must not know what a reader makes of it.
"""

from __future__ import annotations

import random
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Producer

from .records import Record

TIMEOUT_S = 30.0


class TransactionalWriter:
    """One transactional producer; every `write` is in the log when it returns. `make`: its records, by their number."""

    def __init__(
        self, bootstrap: str, name: str, *, make: Callable[[int], Record] | None = None, **settings: Any
    ) -> None:
        self._name = name
        self._make = make or self._plain
        self._written = 0
        self._open_records = Counter[str]()
        self.committed_to = Counter[str]()  # so many records of each topic
        self.transactional_id = f"{name}-{uuid.uuid4().hex[:8]}"
        self._client: Any = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": self.transactional_id, **settings}
        )
        self._client.init_transactions(TIMEOUT_S)
        self.is_open = False

    def write(self, topic: str, records: int = 1, partition: int = 0) -> None:
        if not self.is_open:
            self._client.begin_transaction()
            self.is_open = True
        for _ in range(records):
            self._written += 1
            record = self._make(self._written)
            self._client.produce(
                topic,
                record.value,
                record.key,
                partition=partition,
                headers=list(record.headers),
                timestamp=record.timestamp_ms,
            )
        self._open_records[topic] += records
        left = self._client.flush(TIMEOUT_S)
        assert not left, f"{left} records of {self._name} were not written"

    def commit(self) -> None:
        self._client.commit_transaction(TIMEOUT_S)
        self.committed_to += self._open_records
        self._ended()

    def abort(self) -> None:
        self._client.abort_transaction(TIMEOUT_S)
        self._ended()

    def _ended(self) -> None:
        self.is_open = False
        self._open_records.clear()

    @property
    def committed(self) -> int:
        return self.committed_to.total()

    def _plain(self, number: int) -> Record:
        return Record(value=f"{self._name} {number}".encode(), timestamp_ms=int(time.time() * 1000))


@contextmanager
def writers(bootstrap: str, names: Sequence[str], **settings: Any) -> Iterator[list[TransactionalWriter]]:
    """What they leave open is aborted at the end."""
    made = [TransactionalWriter(bootstrap, name, **settings) for name in names]
    try:
        yield made
    finally:
        for each in made:
            if each.is_open:
                each.abort()


def write_mixed(seed: int, topic: str, by: Sequence[TransactionalWriter], steps: int) -> None:
    """In each step one of them writes some records, or ends its transaction; at the end all are closed."""
    chance = random.Random(seed)
    for _ in range(steps):
        writer = chance.choice(by)
        if writer.is_open and chance.random() < 0.35:
            chance.choice([writer.commit, writer.abort])()
        else:
            writer.write(topic, chance.randrange(1, 4))
    for writer in by:
        if writer.is_open:
            chance.choice([writer.commit, writer.abort])()
