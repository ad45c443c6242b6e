"""What opens the doors of one cluster: TLS for each new connection, SASL on it, and SASL again before its session ends.

Owns when it is proven who we are, on every connection, and with which secret: the one that is current then. Must not
know which connections there are, nor what for.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from heliograph.cluster.connection import Connection
from heliograph.cluster.security.attempts import MOST_AT_ONCE, Attempts
from heliograph.cluster.security.authentication import agree, authenticate
from heliograph.cluster.security.fingerprint import fingerprint
from heliograph.cluster.security.mechanisms import SaslExchange, exchange_for
from heliograph.cluster.security.sasl_threads import begin
from heliograph.cluster.security.settings import SaslSettings, Security
from heliograph.cluster.security.tls_stream import TlsStream
from heliograph.model.errors import HeliographError, SecurityUnusable

if TYPE_CHECKING:
    from heliograph.cluster.security.tls_context import TlsContexts

# Of a session's time, as in Kafka's own clients: at random, so that connections do not all come at once.
AGAIN_AFTER = (0.85, 0.95)
# If each waits for the one in front a KDC that hangs takes half a minute of everybody's time. Those that come beside
# him show it no key: logins are shared (keytab_logins.py), also the ones that fail.
KDC_PATIENCE_S = 0.5


class ClusterLocks:
    """`timeout_ms`: for each step. `attempts`: shared by all who use the same secrets on the cluster."""

    def __init__(
        self,
        security: Security,
        *,
        timeout_ms: int,
        attempts: Attempts,
        make_exchange: Callable[[SaslSettings, str], SaslExchange] = exchange_for,
    ) -> None:
        self._timeout_ms = timeout_ms
        self._attempts = attempts
        self._make_exchange = make_exchange
        self._tasks: set[asyncio.Task[None]] = set()
        self.use(security)

    def use(self, security: Security) -> None:
        """From now on, for new connections and for sessions that are renewed."""
        self._security = security
        self._contexts: TlsContexts | None = None
        if security.tls is not None:
            from heliograph.cluster.security.tls_context import (
                TlsContexts,
            )  # 65 ms that plain text need not wait for

            self._contexts = TlsContexts(security.tls)

    @property
    def problem(self) -> SecurityUnusable | None:
        """Why a file that has changed is not in use, where nothing else fails for that."""
        found = self._contexts.problem if self._contexts is not None else None
        if found is None:
            return None
        return SecurityUnusable(f"{found.message}; what it held before stays in use", hint=found.hint)

    async def tls(self, host: str) -> TlsStream | None:
        """For a new connection to this host; None: in plain text."""
        settings, contexts = self._security.tls, self._contexts
        if settings is None or contexts is None:
            return None
        return TlsStream(await asyncio.to_thread(contexts.current), settings, host)

    async def authenticate(self, connection: Connection, host: str) -> None:
        """Prove who we are on a new connection, and from then on again in time."""
        if self._security.sasl is not None:
            await self._prove(connection, host, at_once=MOST_AT_ONCE, limit_s=self._timeout_ms / 1000)

    async def aclose(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _prove(self, connection: Connection, host: str, *, at_once: int, limit_s: float) -> None:
        """`at_once`: so many may show the secret at the same time (attempts.py). `limit_s`: how long what is held back
        may take to leave first."""
        sasl = self._security.sasl
        if sasl is None:
            return
        # What locks an account, and no more.
        secret = await asyncio.to_thread(fingerprint, replace(self._security, tls=None))
        self._attempts.check(secret)
        # A password is shown to the broker; a keytab's key to the KDC, by what is said first.
        at_kdc: AbstractAsyncContextManager[None] = nullcontext()
        at_broker = at_kdc
        if sasl.kerberos is None:
            at_broker = self._attempts.turn(secret, at_once=at_once)
        else:
            at_kdc = self._attempts.turn(secret, at_once=MOST_AT_ONCE, patience_s=KDC_PATIENCE_S)
        async with at_kdc:
            exchange, first = await begin(sasl, lambda: self._make_exchange(sasl, host))
        async with connection.reserved(limit_s) as line:
            await agree(line, sasl.mechanism, self._timeout_ms)
            async with at_broker:
                lasts_ms = await authenticate(line, exchange, first, self._timeout_ms)
        if lasts_ms > 0:
            lasts_s = lasts_ms / 1000
            due_s = lasts_s * random.uniform(*AGAIN_AFTER)
            left_s = max(lasts_s - due_s, self._timeout_ms / 1000)
            connection.renew_in(due_s, lambda: self._renew(connection, host, left_s))

    def _renew(self, connection: Connection, host: str, limit_s: float) -> None:
        task = asyncio.get_running_loop().create_task(self._prove_again(connection, host, limit_s))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _prove_again(self, connection: Connection, host: str, limit_s: float) -> None:
        try:
            await self._prove(connection, host, at_once=1, limit_s=limit_s)
        except HeliographError as problem:
            connection.close(problem)
