"""New passwords while a mirror runs: the config's secrets are read again, tried, and handed to the lanes.

    config (config_watch.py) ─▶ other secrets? ─▶ the driver tries them ─┬─▶ driver and lanes use them from now on
                                                                          └─▶ refused: told once, the old ones stay

Only what secures connections is taken from the config that is read again. Connections that are open stay so; new ones,
and sessions that are renewed, use what is current. Keystores, certificates and keytabs need no watch: they are read
again by whoever opens a connection.

Owns which secrets are in use. Must not know where a config comes from, nor how a lane is told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from heliograph.cluster.security.security_properties import is_about_security
from heliograph.cluster.security.settings import Security
from heliograph.controller.clusters import Clusters
from heliograph.model.errors import ProtocolError, RequestFailed, SecurityFailed
from heliograph.model.events import Event
from heliograph.model.link import Link
from heliograph.model.outbox import Outbox
from heliograph.model.settings import Settings


def with_secrets_of(running: Settings, read: Settings, clusters: Collection[str]) -> Settings:
    """The settings of the run, with what the others say about the security of these clusters."""
    links = {link.name: link for link in read.links}

    def of_link(own: Link) -> Link:
        other = links.get(own.name, own)
        consumer, producer = _secrets(own.consumer, other.consumer), _secrets(own.producer, other.producer)
        return replace(
            own,
            consumer=consumer if own.source in clusters else own.consumer,
            producer=producer if own.target in clusters else own.producer,
        )

    return replace(
        running,
        clusters={
            name: _secrets(own, read.clusters.get(name, own)) if name in clusters else own
            for name, own in running.clusters.items()
        },
        links=tuple(map(of_link, running.links)),
    )


def _secrets(own: Mapping[str, str], read: Mapping[str, str]) -> dict[str, str]:
    kept = {name: text for name, text in own.items() if not is_about_security(name)}
    return kept | {name: text for name, text in read.items() if is_about_security(name)}


class SecretWatch:
    """`on_change()`: lanes must hear of it."""

    def __init__(
        self,
        clusters: Clusters,
        on_change: Callable[[], None],
        outbox: Outbox,
    ) -> None:
        self._clusters = clusters
        self._on_change = on_change
        self._outbox = outbox
        self._refused: dict[str, set[Security]] = {}  # by cluster: what was tried last, in vain

    async def look(self, read: Settings) -> None:
        """What the config says now."""
        running = self._clusters.settings
        accepted = {name for name in running.clusters if await self._accepts(name, running, read)}
        if accepted:
            self._clusters.use(with_secrets_of(running, read, accepted))
            self._on_change()

    async def _accepts(self, name: str, running: Settings, read: Settings) -> bool:
        """Whether the cluster has other secrets in the config now, and lets us in with them."""
        wanted = self._clusters.securities(with_secrets_of(running, read, {name}))
        fresh = {security: client for client, security in wanted if security != client.properties.security}
        if not fresh or set(fresh) == self._refused.get(name):
            return False
        try:
            for security, client in fresh.items():
                await client.try_security(security)
        except SecurityFailed as problem:
            self._refused[name] = set(fresh)
            words = f"cluster {name!r} refuses the config's new secrets, those of before stay in use: {problem.message}"
            self._outbox.tell(Event.SECRET_REFUSED, words, hint=problem.hint)
            return False
        except (RequestFailed, ProtocolError):
            return False  # it is away: asked again
        self._refused.pop(name, None)
        self._outbox.tell(
            Event.SECRET_CHANGED, f"cluster {name!r}: the config's new secrets are used from now on"
        )
        return True
