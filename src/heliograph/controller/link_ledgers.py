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
from heliograph.controller.ledger import AGAIN_S, NEVER, Ledger
from heliograph.controller.link_ledger import LinkLedger
from heliograph.model.clock import Clock, clock_of_waits
from heliograph.model.command import Command
from heliograph.model.errors import BrokerRefused, ClusterUnreachable, ProtocolError, RequestFailed
from heliograph.model.events import Event
from heliograph.model.outbox import Outbox

CLOSE_LIMIT_S = 3.0
# For so long a link waits for its ledger: a leader is elected in less. Copying waits with it, which does not need it.
AWAY_LIMIT_S = 30.0


class LinkLedgers:
    """`cluster_ids` by link: source, target. `on_command` is called in the event loop with what operators want, of any
    source cluster."""

    def __init__(
        self,
        clusters: Clusters,
        cluster_ids: Mapping[str, tuple[str, str]],
        outbox: Outbox,
        on_command: Callable[[Command], None],
        clock: Clock = clock_of_waits,
    ) -> None:
        self._clusters = clusters
        self._cluster_ids = dict(cluster_ids)
        self._outbox = outbox
        self._on_command = on_command
        self._ledgers: dict[str, Ledger] = {}  # by target cluster
        self._links: dict[str, LinkLedger] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._following: dict[str, asyncio.Task[NoReturn]] = {}
        self._clock = clock
        self._tried_since: dict[str, float] = {}  # by link whose ledger was away ever since
        self._told: set[tuple[str, Event]] = set()  # by target cluster
        self._closed = False

    def add(self, link: str, cluster_ids: tuple[str, str]) -> None:
        """One more link."""
        self._cluster_ids[link] = cluster_ids

    async def remove(self, link: str) -> None:
        """What was to be written of it is; its cluster's ledger stays open, for the others."""
        self._tried_since.pop(link, None)
        ledger = self._links.pop(link, None)
        if ledger is not None:
            await ledger.aclose(CLOSE_LIMIT_S)

    def of(self, link: str) -> LinkLedger | None:
        """None: there is none, or it was not opened yet."""
        return self._links.get(link)

    def forget(self, link: str) -> None:
        """It is kept without a ledger: what was opened before is of a term that is over."""
        self._links.pop(link, None)

    async def open(self, link: str) -> LinkLedger | None:
        """With all that is written there by now. None: there is none now; the next preparation tries again.
        `ClusterUnreachable` while it cannot be read, and is worth waiting for."""
        source_id, target_id = self._cluster_ids[link]
        self._tried_since.setdefault(link, self._clock())
        try:
            async with self._opening.setdefault(target_id, asyncio.Lock()):
                ledger = await self._open(link, target_id)
        except (RequestFailed, ProtocolError) as problem:
            if self.gives_up(link, problem):
                self.forget(link)
                return None
            raise _away(problem) from problem
        if link not in self._links:
            target_topic_id = partial(self._clusters.target_topic_id, link)
            tell = partial(self._tell_unwritten, link)
            self._links[link] = LinkLedger(ledger, link, source_id, target_topic_id, tell)
        return self._links[link]

    def ready(self, link: str) -> None:
        """All that had to be read and written first is: from now on its ledger may be away anew."""
        self._tried_since.pop(link, None)
        self._told.discard((self._cluster_ids[link][1], Event.NO_LEDGER))

    def gives_up(self, link: str, problem: RequestFailed | ProtocolError) -> bool:
        """Whether the link goes on without a ledger: another try mends nothing, or there were enough of them. Told
        once."""
        never = isinstance(problem, BrokerRefused) and problem.code in NEVER
        waited_s = self._clock() - self._tried_since.setdefault(link, self._clock())
        if not never and waited_s < AWAY_LIMIT_S:
            return False
        lacks = "lets us keep no ledger" if never else f"has had no ledger for us for {waited_s:.0f} s"
        hint = problem.hint or (_GRANT if never else "see the broker's log")
        words = (
            f"link {link}: cluster {self._clusters.link(link).target!r} {lacks}: {problem.message}."
            " Stops and pauses are forgotten when the run ends, and commands are not heard"
        )
        self._tell_once(Event.NO_LEDGER, link, words, hint)
        return True

    async def _open(self, link: str, target_id: str) -> Ledger:
        ledger = self._ledgers.get(target_id)
        if ledger is None:
            ledger = Ledger(self._clusters.own_topics(link), partial(self._tell_unread, link))
        await ledger.open()
        self._ledgers[target_id] = ledger
        if target_id not in self._following:
            self._follow(link, target_id, ledger)
        return ledger

    def _follow(self, link: str, target_id: str, ledger: Ledger) -> None:
        if not self._closed:
            following = ledger.follow(self._on_command, partial(self._tell_away, link))
            task = asyncio.get_running_loop().create_task(following)
            self._following[target_id] = task
            task.add_done_callback(lambda ended: self._followed(link, target_id, ledger, ended))

    def _followed(self, link: str, target_id: str, ledger: Ledger, task: asyncio.Task[NoReturn]) -> None:
        """It ends by a bug only: somebody must hear of it, and of the commands that come next."""
        if task.cancelled() or (problem := task.exception()) is None:
            return
        context = {"message": "commands could not be followed", "exception": problem}
        task.get_loop().call_exception_handler(context)
        task.get_loop().call_later(AGAIN_S, self._follow, link, target_id, ledger)

    # -- what is told

    def _tell_once(self, event: Event, link: str, words: str, hint: str | None = None) -> None:
        told = self._cluster_ids[link][1], event
        if told not in self._told:
            self._told.add(told)
            self._outbox.tell(event, words, hint=hint, link=link)

    def _tell_unread(self, link: str) -> None:
        words = (
            f"link {link}: cluster {self._clusters.link(link).target!r} holds a command that cannot be read, of a"
            " newer version or damaged; it is left alone"
        )
        self._tell_once(
            Event.COMMAND, link, words, "see that all machines run the same version of Heliograph"
        )

    def _tell_away(self, link: str, problem: RequestFailed | ProtocolError) -> None:
        """Of the cluster's ledger: one of its links stands for all."""
        words = (
            f"cluster {self._clusters.link(link).target!r}: its ledger cannot be read any more: {problem.message}."
            " Commands are not heard, and stops and pauses not written down, until it can"
        )
        hint = problem.hint or "if its topics were deleted, start the mirror again: it makes them anew"
        self._outbox.tell(Event.NO_LEDGER, words, hint=hint)

    def _tell_unwritten(self, link: str, problem: RequestFailed | ProtocolError, dropped: int) -> None:
        """Not once for each cluster: each link has rows of its own."""
        what = f"{dropped} rows are dropped" if dropped else "rows wait, and are tried again"
        words = (
            f"link {link}: cluster {self._clusters.link(link).target!r} does not take what is to be written down"
            f" ({what}): {problem.message}"
        )
        hint = problem.hint or (_GRANT if dropped else "see the broker's log")
        self._outbox.tell(Event.NO_LEDGER, words, hint=hint, link=link)

    async def aclose(self) -> None:
        self._closed = True
        for task in self._following.values():
            task.cancel()
        await asyncio.gather(*self._following.values(), return_exceptions=True)
        await asyncio.gather(*(each.aclose(CLOSE_LIMIT_S) for each in self._links.values()))


_GRANT = "grant CREATE, READ, WRITE and DESCRIBE on topics that begin with __heliograph_ (docs/SECURITY.md)"


def _away(problem: RequestFailed | ProtocolError) -> ClusterUnreachable:
    return ClusterUnreachable(
        f"the ledger cannot be read: {problem.message}", hint=problem.hint or "see the broker's log"
    )
