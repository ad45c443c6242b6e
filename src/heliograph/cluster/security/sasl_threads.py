"""Where SASL may block: in threads of its own, that nobody waits for without a limit.

MIT's library asks a KDC that hangs for 27 s, and cannot be stopped. So the threads are daemons: a process ends without
them. Each Kerberos login (keytab and principal) has its own: a KDC that hangs keeps no other cluster waiting. Replies
to a broker's challenges ask no KDC, and a connection is reserved meanwhile: they have others again.

Owns the threads and the limits. Must not know what is computed, nor connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache
from typing import Any, TypeVar

from heliograph.cluster.security.mechanisms import SaslExchange
from heliograph.cluster.security.settings import KerberosSettings, SaslSettings

# A KDC answers in milliseconds, and the library asks the next one after a second. It is less than the 12 s in which a
# cluster is reached or said to be away: what is told must be that the KDC does not answer, not the broker.
KDC_LIMIT_S = 8.0
# While a KDC hangs: enough to take tickets that are still good, from memory.
GOOD_TICKETS_LIMIT_S = 0.5
REPLY_LIMIT_S = 30.0  # the longest hash that is taken takes half a second of a core
MOST_THREADS = 64  # at once of one login: each broker takes a ticket of its own
T = TypeVar("T")


class DaemonThreads:
    """Calls from event loops, `most` at a time. Threads are started when they are needed, and stay."""

    def __init__(self, name: str, most: int = MOST_THREADS) -> None:
        self._name = name
        self._most = most
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._unfinished = 0
        self._overdue: set[Future[Any]] = set()

    @property
    def is_overdue(self) -> bool:
        """Whether a call goes on that was given up."""
        return bool(self._overdue)

    async def call(self, call: Callable[[], T], limit_s: float) -> T:
        """`TimeoutError` after `limit_s`, with the time that it waits for a thread; it goes on all the same."""
        future: Future[T] = Future()
        with self._lock:
            self._unfinished += 1
            if self._unfinished > self._threads and self._threads < self._most:
                self._threads += 1
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
        self._calls.put((future, call))
        try:
            async with asyncio.timeout(limit_s):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            if not future.done():  # it is under way: one that was not begun has been cancelled
                self._overdue.add(future)
                future.add_done_callback(self._overdue.discard)
            raise

    def _work(self) -> None:
        while True:
            future, call = self._calls.get()
            if future.set_running_or_notify_cancel():
                _settle(future, call)
            del future, call  # what they hold is released now, and not when the next call comes
            with self._lock:
                self._unfinished -= 1


def _settle(future: Future[T], call: Callable[[], T]) -> None:
    try:
        result = call()
    except BaseException as problem:  # noqa: BLE001 - whoever called gets it
        future.set_exception(problem)
    else:
        future.set_result(result)


_replies = DaemonThreads("sasl-reply")


class _Login:
    """`has_tickets`: they were got once, and may still be good."""

    def __init__(self) -> None:
        self.threads = DaemonThreads("sasl-first")
        self.has_tickets = False

    @property
    def limits_s(self) -> tuple[float, ...]:
        """Of each try. Tickets that are good are used while a KDC hangs, but for whoever was the first to renew them:
        that one tries once more."""
        first = () if self.threads.is_overdue else (KDC_LIMIT_S,)
        return (*first, GOOD_TICKETS_LIMIT_S) if self.has_tickets else first


@cache
def _login_of(kerberos: KerberosSettings | None) -> _Login:  # noqa: ARG001 - the cache's key
    """Of the process. None: all passwords, which ask nobody."""
    return _Login()


async def begin(sasl: SaslSettings, make: Callable[[], SaslExchange]) -> tuple[SaslExchange, bytes]:
    """An exchange, and what it says first; `SecurityFailed` if that does not come in time: at once where somebody else
    waits in vain already, and no tickets can be there."""
    login = _login_of(sasl.kerberos)
    for limit_s in login.limits_s:
        exchange = make()
        with contextlib.suppress(TimeoutError):
            first = await login.threads.call(exchange.first, limit_s)
            login.has_tickets = True
            return exchange, first
    raise make().late(KDC_LIMIT_S)


async def reply(exchange: SaslExchange, challenge: bytes) -> bytes | None:
    try:
        return await _replies.call(lambda: exchange.next(challenge), REPLY_LIMIT_S)
    except TimeoutError:
        raise exchange.late(REPLY_LIMIT_S) from None
