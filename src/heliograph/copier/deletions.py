"""Deletes fillers from the target as copier/alignment.py says: one request for a partition at a time."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.recovery import after_deletion
from heliograph.copier.route import Route
from heliograph.model.errors import BrokerRefused, PartitionStop, ProtocolError, RequestFailed
from heliograph.model.events import Event, Trouble
from heliograph.wire.error_codes import ErrorCode


class Deletions:
    """`spawn` runs a task; `on_change(copy)` is called after a deletion."""

    def __init__(
        self,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        on_change: Callable[[PartitionCopy], None],
    ) -> None:
        self._spawn = spawn
        self._on_change = on_change
        self._under_way: set[PartitionCopy] = set()

    def attend(self, route: Route) -> None:
        """Begin what is due, if nothing is under way."""
        before_offset = route.copy.delete_before
        if before_offset is not None and route.copy not in self._under_way:
            self._under_way.add(route.copy)
            self._spawn(self._delete(route, before_offset))

    async def _delete(self, route: Route, before_offset: int) -> None:
        copy = route.copy
        try:
            await route.target.delete_records(copy.spec.partition.target, before_offset)
        except BrokerRefused as refused:
            self._refused(copy, refused, before_offset)
        except (RequestFailed, ProtocolError) as problem:
            copy.interrupted(Trouble(Event.BROKER_AWAY, problem.message), stale=True)
        else:
            copy.deleted(before_offset)
        finally:
            self._under_way.discard(copy)
        self._on_change(copy)

    def _refused(self, copy: PartitionCopy, refused: BrokerRefused, before_offset: int) -> None:
        """A follower that is slow holds nothing up: the leader's log starts there already."""
        demand = after_deletion(refused)
        if refused.code == ErrorCode.REQUEST_TIMED_OUT:
            copy.deleted(before_offset)
        elif isinstance(demand, PartitionStop):
            copy.stop(demand)
        else:
            copy.interrupted(demand, stale=True)
