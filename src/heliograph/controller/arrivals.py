"""Links that are not part of the run yet, because a cluster of theirs is away: tried again until they can join.

    away ──▶ connect, read topics ─┬─▶ fits the links that run ──▶ joins
     ▲                             ├─▶ does not fit: stays out, told once; looked at again
     └── every discovery_interval ─┘

Owns what they wait for. Each cluster that is away is told once, and once that it is back. Must not know what joining
means to elections, lanes and board: it tells who has arrived.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from heliograph.controller.clusters import Clusters
from heliograph.controller.link_conflicts import check_links
from heliograph.model.errors import ClusterUnreachable, ConfigError, ProtocolError, RequestFailed
from heliograph.model.events import Event
from heliograph.model.outbox import Outbox


@dataclass(frozen=True, slots=True)
class Arrived:
    """The clusters of this link have answered, and it goes with the others."""

    link: str


class Arrivals:
    """`on_arrived` is called in the event loop, with links that take part from then on. `alone`: held while links are
    tried, and by whoever takes links away."""

    def __init__(
        self,
        clusters: Clusters,
        outbox: Outbox,
        on_arrived: Callable[[Arrived], None],
        alone: asyncio.Lock,
        *,
        interval_s: float,
    ) -> None:
        self._alone = alone
        self._clusters = clusters
        self._outbox = outbox
        self._on_arrived = on_arrived
        self.interval_s = interval_s
        self._wake = asyncio.Event()
        self._waiting: dict[str, str] = {}  # by link: for what, in words
        self._away: set[str] = set()  # clusters of which that was told
        self._kept_out: dict[str, str] = {}  # by link: why, as it was told
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> Mapping[str, str]:
        """Links that take no part yet, and why."""
        return self._waiting

    def await_clusters(self, link: str, away: Mapping[str, ClusterUnreachable]) -> None:
        """This link takes no part for now; by cluster, why."""
        names = " and ".join(repr(name) for name in away)
        self._waiting[link] = f"waiting for cluster {names}"
        for name, problem in away.items():
            if name not in self._away:
                self._away.add(name)
                words = f"{problem.message}; links that need it wait, the others go on"
                self._outbox.tell(Event.CLUSTER_AWAY, words, hint=problem.hint or None)

    def await_link(self, link: str) -> None:
        """It is new: it is tried at once."""
        self._waiting[link] = "joining"
        self._wake.set()

    def forget(self, link: str) -> None:
        """It is to join no more."""
        self._waiting.pop(link, None)
        self._kept_out.pop(link, None)

    def await_reading(self, link: str, problem: str) -> None:
        """The same of a link whose clusters answer, and cannot be read."""
        words = f"waiting: {problem}"
        if self._waiting.get(link) != words:
            self._waiting[link] = words
            self._outbox.tell(Event.CLUSTER_AWAY, f"link {link}: {problem}; the others go on", link=link)

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._follow())
        self._task.add_done_callback(_report)

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self.interval_s):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            await self.look()

    async def look(self) -> None:
        """Try all of them once."""
        async with self._alone:
            await self._look()

    async def _look(self) -> None:
        links = list(self._waiting)
        reached = await asyncio.gather(*map(self._reach, links))
        # One after the other: each has to go with those that have joined by then.
        for link in (link for link, answers in zip(links, reached, strict=True) if answers):
            await self._arrive(link)

    async def _reach(self, link: str) -> bool:
        """Whether its clusters answer."""
        try:
            away = await self._clusters.reach(link)
        except (ConfigError, RequestFailed, ProtocolError) as problem:
            self._keep_out(link, problem.message, problem.hint)
            return False
        if away:
            self.await_clusters(link, away)
        self._tell_back(link, away)
        return not away

    def _tell_back(self, link: str, away: Mapping[str, ClusterUnreachable]) -> None:
        of = self._clusters.link(link)
        for name in {of.source, of.target} & self._away - away.keys():
            self._away.discard(name)
            self._outbox.tell(Event.CLUSTER_BACK, f"cluster {name!r} answers: links that waited for it join")

    async def _arrive(self, link: str) -> None:
        try:
            names = [*(each.name for each in self._clusters.links), link]
            check_links(await asyncio.gather(*map(self._clusters.link_topics, names)))
        except ConfigError as problem:
            self._keep_out(link, problem.message, problem.hint)
        except (RequestFailed, ProtocolError) as problem:
            self.await_reading(link, f"a cluster answers but cannot be read: {problem.message}")
        else:
            del self._waiting[link]
            self._kept_out.pop(link, None)
            self._clusters.join(link)
            self._on_arrived(Arrived(link))

    def _keep_out(self, link: str, why: str, hint: str) -> None:
        self._waiting[link] = f"stays out: {why}"
        if self._kept_out.get(link) != why:
            self._kept_out[link] = why
            self._outbox.tell(
                Event.LINK_OUT,
                f"link {link} stays out: {why}; the others go on",
                hint=hint or None,
                link=link,
            )


def _report(task: asyncio.Task[None]) -> None:
    """A bug: somebody must hear of it."""
    if not task.cancelled() and (problem := task.exception()) is not None:
        context = {"message": "links that wait are not tried any more", "exception": problem}
        task.get_loop().call_exception_handler(context)
