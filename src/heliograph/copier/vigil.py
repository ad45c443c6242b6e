"""What makes no noise by itself: looked at every few seconds, for the copies that idle.

A target that lost acknowledged records in an unclean election is silent as long as nothing is appended: its ends are
read again, all of one broker in one request. And a transaction that hangs at the source holds a read_committed mirror
back without any error: a warning names whose it is (P6; held_back.py). A target topic whose configs are switched so
that its broker rewrites batches does so with success: its configs are read again, too (target_configs.py).
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from heliograph.cluster.transactions import OpenTransaction
from heliograph.copier.held_back import held_back
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.ports import TargetPort
from heliograph.copier.route import Route
from heliograph.copier.target_configs import TargetConfigs
from heliograph.model.errors import ProtocolError, RequestFailed
from heliograph.model.partition import MirrorPartition
from heliograph.model.position import Position

LOOK_S = 3.0
ANSWER_LIMIT_S = 3.0  # a broker that hangs must not keep us from looking at the others
HELD_LIMIT_S = 30.0
CONFIGS_S = 5.0


@dataclass(slots=True)
class _Seen:
    """Of one copy, at the last look: where it stood; since when an open transaction has held it back (`inf`: for long,
    and it was told), and where."""

    idle_at: Position | None = None
    held_since: float | None = None
    held_at: int = -1


class Vigil:
    """`on_change(copy)` is called for a copy that has something to do after all. `uniform(low, high)`: by chance."""

    def __init__(
        self,
        routes: Mapping[MirrorPartition, Route],
        on_change: Callable[[PartitionCopy], None],
        uniform: Callable[[float, float], float],
    ) -> None:
        self._routes = routes
        self._on_change = on_change
        self._uniform = uniform
        self._configs = TargetConfigs(on_change)
        self._configs_read_at = -math.inf
        self._seen: WeakKeyDictionary[PartitionCopy, _Seen] = WeakKeyDictionary()

    async def run(self) -> None:
        # Lanes that begin together must not always look together.
        await asyncio.sleep(self._uniform(0, LOOK_S))
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        await asyncio.gather(
            *(self._compare_ends(*who, routes) for who, routes in self._idle().items()),
            *(self._tell_of_transaction(route) for route in self._held_back()),
            *(self._configs.check(target, routes) for target, routes in self._by_target().items()),
        )

    # -- the target's end

    def _idle(self) -> dict[tuple[TargetPort, int], list[Route]]:
        """Those that stand where they stood at the last look, and expect no answer."""
        idle: dict[tuple[TargetPort, int], list[Route]] = defaultdict(list)
        for route in self._routes.values():
            seen = self._seen_of(route.copy)
            stood_at, seen.idle_at = seen.idle_at, route.copy.durable
            if route.copy.is_idle_at(stood_at) and route.target_leader is not None:
                idle[route.target, route.target_leader.node].append(route)
        return idle

    async def _compare_ends(self, target: TargetPort, node: int, routes: list[Route]) -> None:
        try:
            async with asyncio.timeout(ANSWER_LIMIT_S):
                ends = await target.log_ends(node, [r.copy.spec.partition.target for r in routes])
        except (RequestFailed, ProtocolError, TimeoutError):
            return  # a broker that is away is found by whoever has something to append
        for copy in (route.copy for route in routes):
            end = ends.get(copy.spec.partition.target)
            if end is not None and copy.compare_end(end, self._seen_of(copy).idle_at):
                self._on_change(copy)

    def _seen_of(self, copy: PartitionCopy) -> _Seen:
        seen = self._seen.get(copy)
        if seen is None:
            seen = self._seen[copy] = _Seen()
        return seen

    # -- the source's last stable offset

    def _held_back(self) -> list[Route]:
        """Those that an open transaction has held back for long; each is returned once."""
        now = asyncio.get_running_loop().time()
        return [route for route in self._routes.values() if self._held_for_long(route.copy, now)]

    def _held_for_long(self, copy: PartitionCopy, now: float) -> bool:
        seen = self._seen_of(copy)
        if not copy.held_by_transaction:
            seen.held_since = None
        elif seen.held_since is None or seen.held_at != copy.source_end:
            seen.held_since, seen.held_at = now, copy.source_end
        elif now - seen.held_since >= HELD_LIMIT_S:
            seen.held_since = math.inf
            return True
        return False

    async def _tell_of_transaction(self, route: Route) -> None:
        copy = route.copy
        try:
            async with asyncio.timeout(ANSWER_LIMIT_S):
                found: OpenTransaction | str | None = await route.source.open_transaction(
                    copy.spec.partition.source
                )
        except (RequestFailed, ProtocolError, TimeoutError) as problem:
            found = str(problem) or "no answer"
        copy.tell(held_back(found, copy.source_end, copy.source_watermark, HELD_LIMIT_S))

    # -- the target's configs

    def _by_target(self) -> dict[TargetPort, list[Route]]:
        """All that copy, when it is time to look at their topics again."""
        now = asyncio.get_running_loop().time()
        if now - self._configs_read_at < CONFIGS_S:
            return {}
        self._configs_read_at = now
        by_target: dict[TargetPort, list[Route]] = defaultdict(list)
        for route in self._routes.values():
            if not route.copy.over:
                by_target[route.target].append(route)
        self._configs.keep(by_target)
        return by_target
