"""What a config says anew is done while the run goes on: links come and go, and select and copy otherwise.

    read ─▶ changes (pure) ─▶ do the links go together? ─┬─▶ removed: drained, let go, out of its election
                                                         ├─▶ added: joins like one whose cluster was away (arrivals.py)
                                                         ├─▶ selects more: both, one after the other
                                                         └─▶ else: looked at anew (active_link.py)

Nothing of a link that has not changed is touched. Owns the order. Must not know lanes and elections: the run, which is
handed in, does what is to be done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from heliograph.controller.clusters import Clusters
from heliograph.controller.config_changes import ConfigChanges, config_changes
from heliograph.controller.link_conflicts import check_links
from heliograph.model.claims import Claim
from heliograph.model.errors import ProtocolError, RequestFailed
from heliograph.model.events import Event
from heliograph.model.link import Link
from heliograph.model.outbox import Outbox
from heliograph.model.settings import Settings


class RunningLinks(Protocol):
    """controller.Mirror is the real one."""

    @property
    def claims(self) -> Mapping[str, Claim]:
        """By link, as what it stands for election."""

    async def remove_link(self, name: str) -> None:
        """Drained, let go, and out of its election on return."""

    def await_link(self, name: str) -> None:
        """It joins as soon as its clusters answer."""

    def look_anew(self, name: str, before: Link) -> None:
        """What it selects, or how it copies, is not as before."""

    def go_by(self, settings: Settings) -> None: ...


class ConfigFollower:
    """`alone`: held while links are taken away and added; nobody else looks at links that join meanwhile."""

    def __init__(self, clusters: Clusters, run: RunningLinks, outbox: Outbox, alone: asyncio.Lock) -> None:
        self._alone = alone
        self._clusters = clusters
        self._run = run
        self._outbox = outbox
        self._restart: tuple[str, ...] = ()  # keys that were told to wait for a restart

    async def follow(self, read: Settings) -> None:
        """`ConfigError`: links would not go together, and nothing is changed."""
        async with self._alone:
            await self._follow(read)

    async def _follow(self, read: Settings) -> None:
        running = self._clusters.settings
        changes = config_changes(running, read, self._run.claims)
        if changes.words:
            try:
                await self._check(changes)
            except (RequestFailed, ProtocolError):
                return  # a cluster is away: whether they go together is looked at again
            await self._apply(running, changes)
        self._tell_restart(changes.restart)

    async def _check(self, changes: ConfigChanges) -> None:
        """Of links that run; one that is added is looked at when it joins."""
        self._clusters.check(changes.settings, changes.added)
        concerned = {*changes.changed, *changes.rejoining}
        taking_part = {link.name for link in self._clusters.links}
        if concerned & taking_part:
            links = [link for link in changes.settings.links if link.name in taking_part]
            check_links([await self._clusters.link_topics(link.name, link) for link in links])

    async def _apply(self, running: Settings, changes: ConfigChanges) -> None:
        before = {link.name: link for link in running.links}
        for name in (*changes.removed, *changes.rejoining):
            await self._run.remove_link(name)
        await self._clusters.follow(changes.settings)
        self._run.go_by(changes.settings)
        for name in (*changes.added, *changes.rejoining):
            self._run.await_link(name)
        for name in changes.changed:
            self._run.look_anew(name, before[name])
        self._outbox.tell(Event.CONFIG_CHANGED, f"the config has changed: {'; '.join(changes.words)}")

    def _tell_restart(self, keys: tuple[str, ...]) -> None:
        if keys != self._restart:
            self._restart = keys
            if keys:
                words = f"the config has changed, and the mirror must be started again for: {', '.join(keys)}"
                self._outbox.tell(Event.RESTART_NEEDED, words)
