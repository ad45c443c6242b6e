"""Transactions in the background, committed and aborted, for as long as things are killed around them.

Owns a thread. Must not know what is killed. Several producers write to the same partitions, so that their transactions
lie mixed; which ones, and how they end, comes from a seed.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from .records import Record
from .transactions import TransactionalWriter

PAUSE_S = 0.03  # about 50 records a second
WRITERS = 3
END_CHANCE = 0.35


class SteadyTransactions:
    """From entering the context to `stop`, or to leaving it. `committed`: so many records, once it is stopped."""

    def __init__(
        self,
        bootstrap: str,
        wheres: Sequence[tuple[str, int]],
        *,
        seed: int,
        make: Callable[[int], Record] | None = None,
    ) -> None:
        self._wheres = list(wheres)
        self._dice = random.Random(seed)
        self._writers = [
            TransactionalWriter(bootstrap, f"steady-{number}", make=make) for number in range(WRITERS)
        ]
        self._aborted = 0
        self._ending = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="steady-transactions", daemon=True)

    @property
    def committed(self) -> int:
        return sum(writer.committed for writer in self._writers)

    @property
    def committed_to(self) -> Counter[str]:
        """By topic."""
        return sum((writer.committed_to for writer in self._writers), Counter[str]())

    @property
    def aborted(self) -> int:
        """So many transactions."""
        return self._aborted

    def also_to(self, wheres: Sequence[tuple[str, int]]) -> None:
        """From now on to these partitions, too."""
        self._wheres = [*self._wheres, *wheres]

    def stop(self) -> int:
        """Ends every transaction and the thread; the number of records that were committed."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._error is not None:
            raise self._error
        return self.committed

    def _run(self) -> None:
        try:
            while not self._ending.wait(PAUSE_S):
                self._step()
            for writer in self._writers:
                self._end(writer)
        except Exception as error:  # noqa: BLE001 (raised again by whoever stops the thread)
            self._error = error

    def _step(self) -> None:
        writer = self._dice.choice(self._writers)
        if writer.is_open and self._dice.random() < END_CHANCE:
            self._end(writer)
        else:
            topic, partition = self._dice.choice(self._wheres)
            writer.write(topic, self._dice.randrange(1, 4), partition)

    def _end(self, writer: TransactionalWriter) -> None:
        if writer.is_open:
            if self._dice.choice([True, False]):
                writer.commit()
            else:
                writer.abort()
                self._aborted += 1

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        if kind is None:
            self.stop()  # if the test failed already, its own error is the one to show
