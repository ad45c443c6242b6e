"""A producer in the background, at a steady rate, for as long as things are killed around it.

Owns a thread. Must not know what is killed. Its records are idempotent and in order per partition, so that
whatever a broker's death does, the source log itself stays exact.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from .records import Record
from .topics import partition_count
from .workload import FLUSH_TIMEOUT_S, ConfirmedProducer

TICK_S = 0.01
PURGE_TIMEOUT_S = 5.0


class SteadyProducer:
    """Produces from entering the context to `stop`, or to leaving it; `count` is what was confirmed."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        rate_per_s: float = 500,
        codec: str = "lz4",
        make: Callable[[int], Record] | None = None,
    ) -> None:
        """`make`: its records, by their number."""
        self._topic = topic
        self._make = make or _record
        self._rate_per_s = rate_per_s
        self._partitions = partition_count(bootstrap, topic)
        self._producer = ConfirmedProducer(bootstrap, codec=codec)
        self._ending = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"steady-{topic}", daemon=True)

    @property
    def count(self) -> int:
        return self._producer.confirmed

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def wait_for(self, count: int, timeout_s: float = FLUSH_TIMEOUT_S) -> None:
        """Returns when so many records are confirmed."""
        deadline = time.monotonic() + timeout_s
        while self.count < count:
            if time.monotonic() > deadline or not self._thread.is_alive():
                raise TimeoutError(f"{self.count} of {count} records confirmed") from self._error
            time.sleep(TICK_S)

    def stop(self) -> int:
        """Ends the thread, confirms what it sent, and returns the number of records."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._error is not None:
            raise self._error
        return self.count

    def _run(self) -> None:
        try:
            self._produce()
            self._producer.confirm()
        except Exception as error:  # noqa: BLE001 (raised again by whoever stops the thread)
            self._error = error

    def _produce(self) -> None:
        started_at, number = time.monotonic(), 0
        while not self._ending.wait(TICK_S):
            due = int((time.monotonic() - started_at) * self._rate_per_s)
            while number < due:
                self._producer.send(self._topic, number % self._partitions, self._make(number))
                number += 1
            self._producer.client.poll(0)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
        else:
            self._ending.set()  # the test failed already: its own error is the one to show
            self._producer.client.purge()
            self._thread.join(PURGE_TIMEOUT_S)


def _record(number: int) -> Record:
    return Record(
        key=b"%d" % (number % 100),
        value=b'{"number": %d, "filler": "%s"}' % (number, b"x" * (number % 80)),
        headers=(("number", b"%d" % number),),
        timestamp_ms=int(time.time() * 1000),
    )
