"""SASL GSSAPI as a client, without a security layer (RFC 4752): tokens by which a mirror and a broker prove themselves.

Owns one authentication from the first token to the last. Must not know how tokens travel, nor C (gss_library.py), nor
when tickets are renewed (keytab_logins.py).

    NEW ── first() ──▶ TOKENS ── both are proven ──▶ LAYER ── "none" is sent ──▶ VERDICT ── yes ──▶ DONE
     └─────────────────┴──────────── any failure ─────┴───────────────────────────┴───────────────▶ DONE

The broker is `service name@host`, by the host at which it is addressed: the one that it advertises, or, before it has
told that, the one of bootstrap.servers. krb5.conf says in which realm that host is, and whether DNS may replace its
name.

Calls block while a KDC is asked: make them in a thread. Exchanges of several threads run at once; one exchange is
called by one thread at a time. All that it holds is released when it is done, has failed, or is dropped.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from enum import Enum, auto
from functools import cache

from heliograph.cluster.security.gss_library import GssContext, GssFailed, GssLibrary, gss_library
from heliograph.cluster.security.kerberos_failures import (
    KerberosAttempt,
    KerberosConfig,
    Step,
    explained,
    kdc_hangs,
    refused_by_broker,
)
from heliograph.cluster.security.keytab_logins import KeytabLogins, Loan
from heliograph.cluster.security.settings import KerberosSettings
from heliograph.model.errors import SecurityFailed

MOST_CHALLENGE_BYTES = 64 << 10  # a broker's tokens have some hundred
DEFAULT_CONFIG = "/etc/krb5.conf"
_NO_LAYER = 1
# The layer that we choose, and the most bytes that we would take of one: none.
_CHOICE = bytes((_NO_LAYER, 0, 0, 0))


class _State(Enum):
    NEW = auto()
    TOKENS = auto()
    LAYER = auto()
    VERDICT = auto()
    DONE = auto()


class KerberosExchange:
    """One authentication to the broker at `host`."""

    def __init__(self, settings: KerberosSettings, host: str) -> None:
        self._settings = settings
        self._host = host
        self._state = _State.NEW
        self._held = ExitStack()
        self._loan: Loan | None = None
        self._context: GssContext | None = None

    def first(self) -> bytes:
        """Gets the tickets that are not there yet."""
        assert self._state is _State.NEW
        library = gss_library()
        with self._released_on_failure():
            with self._explained(Step.LOGIN):
                store = self._ticket_store(library)
                credentials, _ = self._held.enter_context(
                    library.credentials(store, self._settings.principal)
                )
            with self._explained(Step.TICKET):
                service = f"{self._settings.service_name}@{self._host}"
                target = self._held.enter_context(library.service_name(service))
                self._context = self._held.enter_context(library.context(credentials, target))
                token = self._context.step(b"")
        self._state = _State.TOKENS
        return token

    def next(self, challenge: bytes) -> bytes | None:
        """What answers the broker's challenge; None when it has said yes."""
        assert self._context is not None
        with self._released_on_failure(), self._explained(Step.BROKER):
            if len(challenge) > MOST_CHALLENGE_BYTES:
                raise SecurityFailed(f"broker {self._host} sent a SASL challenge of {len(challenge)} bytes")
            match self._state:
                case _State.TOKENS:
                    answer = self._context.step(challenge)
                    self._state = _State.LAYER if self._context.established else _State.TOKENS
                    return answer
                case _State.LAYER:
                    self._state = _State.VERDICT
                    return self._chosen_layer(self._context, challenge)
                case _State.VERDICT:
                    self._release(proven=True)
                    return None
                case _:
                    raise AssertionError("an exchange that is done has nothing more to say")

    def refused(self, words: str) -> SecurityFailed:
        """What it means that the broker refuses us, in these words."""
        self._release(proven=False)
        return refused_by_broker(words, self._attempt())

    def late(self, limit_s: float) -> SecurityFailed:
        """Changes nothing: another thread may be in one of the others."""
        return kdc_hangs(limit_s, self._attempt())

    def _chosen_layer(self, context: GssContext, challenge: bytes) -> bytes:
        offer = context.unwrap(challenge)
        if len(offer) != len(_CHOICE):
            raise SecurityFailed(f"broker {self._host} offered no choice of security layers")
        if not offer[0] & _NO_LAYER:
            raise SecurityFailed(
                f"broker {self._host} demands a security layer of SASL, which Kafka's protocol has no place for",
                hint="let it offer sasl.qop auth, and encrypt by security.protocol SASL_SSL",
            )
        return context.wrap(_CHOICE)

    def _ticket_store(self, library: GssLibrary) -> Mapping[str, str]:
        ticket_cache = self._settings.ticket_cache
        if ticket_cache is not None:
            return {"ccache": ticket_cache} if ticket_cache else {}
        logins = _logins_of_process(library)
        self._loan = logins.borrow(self._settings.keytab, self._settings.principal)
        # Nothing in here may refer to the exchange: it would be dropped by a garbage collector only, much later.
        self._held.callback(self._loan.give_back)
        return {"ccache": self._loan.ticket_cache}

    @contextmanager
    def _explained(self, step: Step) -> Iterator[None]:
        try:
            yield
        except GssFailed as failed:
            raise explained(failed.failure, step, self._attempt()) from failed

    def _attempt(self) -> KerberosAttempt:
        return KerberosAttempt(
            settings=self._settings, host=self._host, machine=platform.node(), config=_config_of_process()
        )

    @contextmanager
    def _released_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._release(proven=False)
            raise

    def _release(self, *, proven: bool) -> None:
        self._state = _State.DONE
        if self._loan is not None:
            self._loan.proven = proven
        self._held.close()

    def __del__(self) -> None:
        """Whoever was refused by the broker, or lost it, drops the exchange."""
        self._held.close()


class LibraryTickets:
    """Tickets of keytabs, by the library (keytab_logins.Tickets)."""

    def __init__(self, library: GssLibrary) -> None:
        self._library = library

    def log_in(self, *, keytab: str, principal: str, ticket_cache: str) -> int:
        store = {"client_keytab": f"FILE:{keytab}", "ccache": ticket_cache}
        with self._library.credentials(store, principal) as (_, life_s):
            self._library.leave_ticket_cache_alone(ticket_cache)
            return life_s

    def destroy(self, ticket_cache: str) -> None:
        self._library.destroy_ticket_cache(ticket_cache)


@cache
def _logins_of_process(library: GssLibrary) -> KeytabLogins:
    return KeytabLogins(LibraryTickets(library))


def _config_of_process() -> KerberosConfig:
    files = tuple(filter(None, os.environ.get("KRB5_CONFIG", DEFAULT_CONFIG).split(":")))
    return KerberosConfig(files=files, missing=tuple(each for each in files if not os.access(each, os.R_OK)))
