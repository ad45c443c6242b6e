"""Tickets by keytab, shared by all connections of a process: who is logged in, and when it is time to log in again.

Owns one login for each keytab and principal at a time: a cache in memory, of its own name, that holds the tickets.
Must not know GSSAPI (`Tickets` does), SASL or brokers.

- A login is never renewed in place. When half of its time is over a new one takes its place, in a new cache, and the
  old one goes when the last who uses it is done. So no exchange loses a ticket while it uses it.
- If the keytab's content changes, the next exchange logs in anew, whatever the old tickets are good for: a key that
  does not work shows at once, and not when they end.
- After an exchange that came to no good end the next one logs in anew. A broker that was given another key refuses
  the tickets that were got for the old one, and nothing else would fetch others.
- One thread logs in; the others wait for it. If it fails, those that waited meanwhile fail as it did: a key that is
  refused is shown to a KDC once, and not once for each connection, which may lock the account.
- While no KDC answers, tickets that are still good are used; and while one thread renews tickets, others use those that
  are still good.

All methods may be called by several threads at once, `give_back` also by a garbage collector, in the middle of any
other.
"""

from __future__ import annotations

import hashlib
import itertools
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from heliograph.cluster.security.gss_library import GssFailed
from heliograph.cluster.security.kerberos_failures import GssFailure, is_kdc_away
from heliograph.cluster.security.keytab import check_keytab
from heliograph.cluster.security.store_files import read_store
from heliograph.model.errors import SecurityUnusable

AWAY_PAUSE_S = 300.0  # at the most, while old tickets are good: who tries a KDC that hangs waits some 30 s


class Tickets(Protocol):
    """`ticket_cache` is a name as the library takes it."""

    def log_in(self, *, keytab: str, principal: str, ticket_cache: str) -> int:
        """Asks the KDC. Returns how long the ticket lasts, in seconds."""
        ...

    def destroy(self, ticket_cache: str) -> None: ...


@dataclass(slots=True, kw_only=True, eq=False)
class _Login:
    """Its cache is there until the last who uses it has given it back."""

    ticket_cache: str
    digest: bytes  # of the keytab
    renew_at: float
    ends_at: float
    users: int = 1  # the account that made it


class KeytabLogins:
    """`now`: the time of day, by which tickets end."""

    def __init__(self, tickets: Tickets, now: Callable[[], float] = time.time) -> None:
        self._tickets = tickets
        self._now = now
        self._users = _Users(tickets)
        self._accounts: dict[tuple[str, str], _Account] = {}
        self._opening = threading.Lock()
        # A collector may run inside of any statement, also of one that holds a lock: it leaves a note, and no more.
        self._returned: queue.SimpleQueue[tuple[_Login, bool]] = queue.SimpleQueue()

    def borrow(self, keytab: str, principal: str) -> Loan:
        """May ask the KDC. `SecurityUnusable` if the keytab is at fault, else `GssFailed`."""
        self._take_back()
        with self._opening:
            account = self._accounts.get((keytab, principal))
            if account is None:
                account = _Account(keytab, principal, self._tickets, self._users, self._now)
                self._accounts[keytab, principal] = account
        return Loan(account.login(), self._returned)

    def _take_back(self) -> None:
        while True:
            try:
                login, proven = self._returned.get_nowait()
            except queue.Empty:
                return
            if not proven:
                login.renew_at = float("-inf")
            self._users.leave(login)


class Loan:
    """A login, for one exchange. `proven`: a broker has taken its tickets."""

    def __init__(self, login: _Login, returned: queue.SimpleQueue[tuple[_Login, bool]]) -> None:
        self.ticket_cache = login.ticket_cache
        self.proven = False
        self._login = login
        self._returned = returned

    def give_back(self) -> None:
        """Once."""
        self._returned.put((self._login, self.proven))


class _Users:
    """How many use a login: its tickets go with the last of them."""

    def __init__(self, tickets: Tickets) -> None:
        self._tickets = tickets
        self._lock = threading.Lock()  # held for a moment only

    def join(self, login: _Login) -> bool:
        """False if its tickets are gone already."""
        with self._lock:
            there = login.users > 0
            login.users += there
            return there

    def leave(self, login: _Login) -> None:
        with self._lock:
            login.users -= 1
            last = not login.users
        if last:
            self._tickets.destroy(login.ticket_cache)


class _Account:
    """One keytab and principal, and its login of now."""

    _numbers = itertools.count(1)  # of all: caches in memory are the process's

    def __init__(
        self, keytab: str, principal: str, tickets: Tickets, users: _Users, now: Callable[[], float]
    ) -> None:
        self._keytab = keytab
        self._principal = principal
        self._tickets = tickets
        self._users = users
        self._now = now
        self._tries_over = 0
        # Held while a KDC is asked. What is below is written by who holds it, and read by others.
        self._lock = threading.Lock()
        self._login: _Login | None = None
        self._refusal: tuple[bytes, GssFailure] | None = None  # of the last try: which keytab, and why

    def login(self) -> _Login:
        """One more uses it."""
        content = self._content()
        digest = hashlib.sha256(content).digest()
        tries_over = self._tries_over
        login = self._good(digest)
        somebody_renews = self._lock.locked()
        if login is not None and (somebody_renews or not self._is_due(login)) and self._users.join(login):
            return login
        with self._lock:
            login = self._good(digest)
            if login is None:
                check_keytab(content, self._keytab, self._principal)
                self._fail_as_others(digest, tries_over)
                login = self._logged_in(digest)
            elif self._is_due(login):
                login = self._renewed(login)
            self._users.join(login)
            return login

    def _content(self) -> bytes:
        try:
            return read_store(self._keytab)
        except SecurityUnusable as problem:
            words = f"keytab of {self._principal or 'the mirror'}: {problem.message}"
            raise SecurityUnusable(words, hint=problem.hint) from problem

    def _good(self, digest: bytes) -> _Login | None:
        login = self._login
        good = login is not None and login.digest == digest and self._now() < login.ends_at
        return login if good else None

    def _is_due(self, login: _Login) -> bool:
        return self._now() >= login.renew_at

    def _fail_as_others(self, digest: bytes, tries_over: int) -> None:
        """As somebody else did while we waited."""
        if self._tries_over != tries_over and self._refusal is not None and self._refusal[0] == digest:
            raise GssFailed(self._refusal[1])

    def _renewed(self, login: _Login) -> _Login:
        try:
            return self._logged_in(login.digest)
        except GssFailed as problem:
            remaining_s = login.ends_at - self._now()
            if not is_kdc_away(problem.failure) or remaining_s <= 0:
                raise
            login.renew_at = self._now() + min(AWAY_PAUSE_S, remaining_s / 2)
            return login

    def _logged_in(self, digest: bytes) -> _Login:
        """A new login in the place of the one before, which stays if that fails."""
        ticket_cache = f"MEMORY:heliograph-{next(self._numbers)}"
        try:
            asked_at = self._now()
            life_s = self._tickets.log_in(
                keytab=self._keytab, principal=self._principal, ticket_cache=ticket_cache
            )
        except GssFailed as problem:
            self._tickets.destroy(ticket_cache)
            self._refusal = digest, problem.failure
            raise
        finally:
            self._tries_over += 1
        if self._login is not None:
            self._users.leave(self._login)
        self._login = _Login(
            ticket_cache=ticket_cache,
            digest=digest,
            renew_at=asked_at + life_s / 2,
            ends_at=asked_at + life_s,
        )
        self._refusal = None
        return self._login
