"""What becomes of a fetch's answer: each copy is given what was fetched for it, or why nothing was.

Knows neither sessions nor memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from heliograph.copier.budget import Parcel
from heliograph.copier.lease import Lease
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.recovery import stop_for_read
from heliograph.model.errors import BrokerRefused, HeliographError
from heliograph.model.events import Event, Trouble
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.fetch import FetchedPartition, FetchReply


class Asked(NamedTuple):
    """Who asked from where. An answer counts only if nothing has interrupted the copy since: the source's log may be
    another one by now."""

    copy: PartitionCopy
    interruptions: int
    next_offset: int


class FetchDelivery:
    """Of one broker. `on_batches(copy)` is called after a copy was given records or an error. `wall_ms`: the time of
    day."""

    def __init__(
        self, lease: Lease, on_batches: Callable[[PartitionCopy], None], wall_ms: Callable[[], int]
    ) -> None:
        self._lease = lease
        self._on_batches = on_batches
        self._wall_ms = wall_ms
        self._compares_epochs = False  # the broker says so with every answer

    def heard(self, reply: FetchReply) -> None:
        """Any answer of the broker."""
        self._compares_epochs = reply.compares_epochs

    def give(self, asked: Asked, fetched: FetchedPartition, parcel: Parcel) -> None:
        copy, interruptions, offset = asked
        if copy.interruptions != interruptions:
            return
        if not fetched.error:
            copy.fetched(fetched, offset, parcel, self._wall_ms(), exclusive=self._lease.exclusive)
        else:
            self._refuse(copy, offset, fetched.error)
        self._on_batches(copy)

    def _refuse(self, copy: PartitionCopy, offset: int, code: int) -> None:
        problem = BrokerRefused(f"fetch at {offset}: {ErrorCode.name_of(code)}", code=code)
        stop = stop_for_read(problem)
        if stop is not None:
            copy.stop(stop)
        else:
            copy.interrupted(Trouble(Event.FETCH_REFUSED, problem.message, offset))

    def fail(self, copies: Iterable[PartitionCopy], problem: HeliographError) -> None:
        """Nothing was read: it is read again from where each copy stands. Where the source has no epochs to compare, it
        is checked first: its log may be another one when the connection is back."""
        stop = stop_for_read(problem) if isinstance(problem, BrokerRefused) else None
        trouble = Trouble(Event.BROKER_AWAY, problem.message)
        for copy in copies:
            if stop is not None:
                copy.stop(stop)
            elif self._compares_epochs and copy.source_epoch >= 0:
                copy.source_away(trouble)
            else:
                copy.interrupted(trouble)
            self._on_batches(copy)
