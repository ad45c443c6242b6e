"""New passwords while a mirror runs: the config's secrets are read again, tried, and handed to the lanes.

    config (config_watch.py) ─▶ other secrets? ─▶ the driver tries them ─┬─▶ driver and lanes use them from now on
                                                                          └─▶ told; the old ones stay, these are tried
                                                                              again when secret_tries.py says so

Only what secures connections is taken from the config that is read again. Connections that are open stay so; new ones,
and sessions that are renewed, use what is current. Keystores, certificates and keytabs need no watch: they are read
again by whoever opens a connection.

Clusters are tried side by side: one that hangs holds up no other.

Owns which secrets are in use. Must not know where a config comes from, nor how a lane is told.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.security.fingerprint import fingerprint
from heliograph.cluster.security.settings import Security
from heliograph.controller.clusters import Clusters
from heliograph.controller.secret_settings import with_secrets_of
from heliograph.controller.secret_tries import NewSecrets, SecretTries
from heliograph.model.errors import (
    AuthenticationFailed,
    HeliographError,
    ProtocolError,
    RequestFailed,
    SecurityFailed,
)
from heliograph.model.events import Event
from heliograph.model.outbox import Outbox
from heliograph.model.settings import Settings

_STAY = "those of before stay in use"
_START_AGAIN = (
    "start the mirror again: which links there are, and all else in the config, counts from then on"
)


class SecretWatch:
    """`on_change()`: lanes must hear of it. `now`: any clock."""

    def __init__(
        self,
        clusters: Clusters,
        on_change: Callable[[], None],
        outbox: Outbox,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clusters = clusters
        self._on_change = on_change
        self._outbox = outbox
        self._now = now
        self._tries: defaultdict[str, SecretTries] = defaultdict(SecretTries)  # by cluster

    async def look(self, read: Settings) -> None:
        """What the config says now."""
        async with asyncio.TaskGroup() as looks:
            for name in self._clusters.settings.clusters:
                looks.create_task(self._look_at(name, read))

    async def _look_at(self, name: str, read: Settings) -> None:
        """Whether the config has other secrets for the cluster now; they are used if it lets us in with them."""
        try:
            fresh = self._fresh(name, read)
            if not fresh:
                self._tries.pop(name, None)
                return
            secrets = await asyncio.to_thread(_new_secrets, fresh)
            if not self._tries[name].due(secrets, self._now()):
                return
            if await self._are_accepted(name, fresh):
                self._clusters.use(with_secrets_of(self._clusters.settings, read, {name}))
                self._tries.pop(name, None)
                self._outbox.tell(
                    Event.SECRET_CHANGED, f"cluster {name!r}: the config's new secrets are used from now on"
                )
                self._on_change()
        except HeliographError as problem:
            # The config is right by itself: of it only what secures connections is taken, and does not fit the rest.
            words = f"the config's new secrets for cluster {name!r} do not fit this run, {_STAY}"
            self._tell_once(name, words, problem, _START_AGAIN)

    def _fresh(self, name: str, read: Settings) -> dict[Security, ClusterClient]:
        """By what is not in use yet: a client to try it with."""
        wanted = self._clusters.securities(with_secrets_of(self._clusters.settings, read, {name}))
        return {security: client for client, security in wanted if security != client.properties.security}

    async def _are_accepted(self, name: str, fresh: Mapping[Security, ClusterClient]) -> bool:
        for security, client in fresh.items():
            # Before it is tried: a keytab may change meanwhile.
            credential = await asyncio.to_thread(_credential, security)
            try:
                await client.try_security(security)
            except AuthenticationFailed as problem:
                self._tell_refused(name, problem, self._tries[name].refused(credential, self._now()))
                return False
            except SecurityFailed as problem:
                self._tries[name].failed(self._now())
                words = f"cluster {name!r} cannot be entered with the config's new secrets, {_STAY}"
                self._tell_once(name, words, problem, problem.hint)
                return False
            except (RequestFailed, ProtocolError):  # it is away, which others tell of
                self._tries[name].failed(self._now())
                return False
        return True

    def _tell_refused(self, name: str, problem: AuthenticationFailed, again_s: float | None) -> None:
        again = (
            "they are not tried again until they change"
            if again_s is None
            else f"they are tried again in {again_s / 60:.0f} min"
        )
        words = f"cluster {name!r} refuses the config's new secrets, {_STAY}: {problem.message}; {again}"
        self._outbox.tell(Event.SECRET_REFUSED, words, hint=problem.hint)

    def _tell_once(self, name: str, words: str, problem: HeliographError, hint: str) -> None:
        if self._tries[name].is_news(problem.message):
            self._outbox.tell(Event.SECRET_REFUSED, f"{words}: {problem.message}", hint=hint)


def _new_secrets(fresh: Collection[Security]) -> NewSecrets:
    """Reads the files that the securities name."""
    return NewSecrets(
        credentials=frozenset(map(_credential, fresh)),
        whole=frozenset(fingerprint(security) for security in fresh),
    )


def _credential(security: Security) -> str:
    """What locks an account, and no more."""
    return fingerprint(replace(security, tls=None))
