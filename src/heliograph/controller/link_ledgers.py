"""The ledgers of a run's targets: one for each target cluster, shared by the links that lead there.

A target that lets us make none is mirrored to all the same: what needs no ledger works, and what is missing is told
once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import NoReturn

from heliograph.controller.clusters import Clusters
from heliograph.controller.ledger import Ledger
from heliograph.controller.link_ledger import LinkLedger
from heliograph.model.command import Command
from heliograph.model.errors import BrokerRefused, ClusterUnreachable, ProtocolError, RequestFailed
from heliograph.model.events import Event
from heliograph.model.outbox import Outbox
from heliograph.wire.error_codes import ErrorCode

CLOSE_LIMIT_S = 3.0
# Nothing that another try could mend: the run goes on without a ledger.
_NEVER = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_CONFIG,
    }
)


class LinkLedgers:
    """`cluster_ids` by link: source, target. `on_command` is called in the event loop with what operators want, of any
    source cluster."""

    def __init__(
        self,
        clusters: Clusters,
        cluster_ids: Mapping[str, tuple[str, str]],
        outbox: Outbox,
        on_command: Callable[[Command], None],
    ) -> None:
        self._clusters = clusters
        self._cluster_ids = cluster_ids
        self._outbox = outbox
        self._on_command = on_command
        self._ledgers: dict[str, Ledger] = {}  # by target cluster
        self._links: dict[str, LinkLedger] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._following: dict[str, asyncio.Task[NoReturn]] = {}
        self._told: set[str] = set()

    def of(self, link: str) -> LinkLedger | None:
        """None: there is none, or it was not opened yet."""
        return self._links.get(link)

    async def open(self, link: str) -> LinkLedger | None:
        """With all that is written there by now. None: there is none, and there will be none. `ClusterUnreachable`
        while it cannot be read."""
        source_id, target_id = self._cluster_ids[link]
        try:
            async with self._opening.setdefault(target_id, asyncio.Lock()):
                ledger = await self._open(link, target_id)
        except BrokerRefused as refused:
            if refused.code in _NEVER:
                self._tell_missing(link, target_id, refused)
                return None
            raise _away(refused) from refused
        except (RequestFailed, ProtocolError) as problem:
            raise _away(problem) from problem
        if link not in self._links:
            target_topic_id = partial(self._clusters.target_topic_id, link)
            self._links[link] = LinkLedger(ledger, link, source_id, target_topic_id)
        return self._links[link]

    async def _open(self, link: str, target_id: str) -> Ledger:
        ledger = self._ledgers.get(target_id) or Ledger(self._clusters.own_topics(link))
        await ledger.open()
        self._ledgers[target_id] = ledger
        if target_id not in self._following:
            follow = asyncio.get_running_loop().create_task(ledger.follow(self._on_command))
            self._following[target_id] = follow
        return ledger

    def _tell_missing(self, link: str, target_id: str, refused: BrokerRefused) -> None:
        if target_id in self._told:
            return
        self._told.add(target_id)
        self._outbox.tell(
            Event.NO_LEDGER,
            f"link {link}: cluster {self._clusters.link(link).target!r} lets us keep no ledger: {refused.message}."
            " Stops and pauses are forgotten when the run ends, and commands are not heard",
            hint=refused.hint
            or "grant CREATE, READ, WRITE and DESCRIBE on topics that begin with __heliograph_ (docs/SECURITY.md)",
            link=link,
        )

    async def aclose(self) -> None:
        for task in self._following.values():
            task.cancel()
        await asyncio.gather(*self._following.values(), return_exceptions=True)
        await asyncio.gather(*(each.aclose(CLOSE_LIMIT_S) for each in self._links.values()))


def _away(problem: RequestFailed | ProtocolError) -> ClusterUnreachable:
    return ClusterUnreachable(
        f"the ledger cannot be read: {problem.message}", hint=problem.hint or "see the broker's log"
    )
