"""A transactional producer of the harness, by an independent client, and how transactions are spread. Must not know
what mirrors them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Producer

from bench.clusters import QUIET
from bench.fill import send

TIMEOUT_S = 60.0
SETTINGS = {
    **QUIET,
    "linger.ms": 5,  # a transaction's records leave as one batch
    "batch.size": 1_000_000,
    "batch.num.messages": 10_000,
    "queue.buffering.max.messages": 200_000,
}


class TransactionalProducer:
    """One transaction at a time."""

    def __init__(self, bootstrap_servers: str) -> None:
        identity = f"bench-{uuid.uuid4().hex}"
        self._producer: Any = Producer(
            {**SETTINGS, "bootstrap.servers": bootstrap_servers, "transactional.id": identity}
        )
        self._producer.init_transactions(TIMEOUT_S)

    def write(self, topic: str, partition: int, values: Iterable[bytes], *, abort: bool = False) -> None:
        """Everything is on the broker when it returns, the marker included."""
        self._producer.begin_transaction()
        for value in values:
            send(self._producer, topic, value=value, partition=partition)
        if abort:
            # An abort throws away what was not sent yet: then there would be nothing to leave out.
            left = self._producer.flush(TIMEOUT_S)
            assert left == 0, f"{left} records could not be produced"
            self._producer.abort_transaction(TIMEOUT_S)
        else:
            self._producer.commit_transaction(TIMEOUT_S)
