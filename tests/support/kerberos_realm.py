"""Kerberos realms with a mirror and a broker in each, as this process sees them: KDCs, keytabs, KRB5_CONFIG.

Owns who is in a realm and where this process reads of it. Must not know real brokers.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

from heliograph.cluster.security.kerberos import KerberosExchange
from heliograph.cluster.security.settings import KerberosSettings

from .kdc import Kdc
from .kerberos_acceptor import NO_LAYER, Acceptor

CLIENT = "mirror"
VARIABLES = ("KRB5_CONFIG", "KRB5CCNAME")


class Realm:
    """A KDC that knows a client, `mirror`, and the service of a broker at `host`."""

    def __init__(self, kdc: Kdc, host: str) -> None:
        self.kdc = kdc
        self.host = host
        self.service = f"kafka/{host}"
        kdc.add(CLIENT, self.service)
        self.keytab = kdc.write_keytab("mirror.keytab", CLIENT)
        self.broker_keytab = kdc.write_keytab("broker.keytab", self.service)
        self.settings = KerberosSettings(
            service_name="kafka", principal=f"{CLIENT}@{kdc.realm}", keytab=str(self.keytab)
        )

    @property
    def logins(self) -> int:
        """How often the KDC has given the client a ticket for its key."""
        return self.kdc.logins_of(CLIENT)

    def authenticate(self, settings: KerberosSettings | None = None) -> str:
        """A whole exchange with an acceptor; who has authenticated, by its word."""
        return authenticate(KerberosExchange(settings or self.settings, self.host), self.broker_keytab)


class Realms:
    """From entering the context to leaving it. krb5.conf is that of all realms so far, and there is no ticket cache."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running: list[Kdc] = []
        self._before = {name: os.environ.get(name) for name in VARIABLES}

    def __enter__(self) -> Self:
        os.environ["KRB5CCNAME"] = f"FILE:{self._directory}/no-tickets"
        return self

    def __exit__(self, *_: object) -> None:
        for kdc in self._running:
            kdc.stop()
        for name, value in self._before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value

    def add(self, letter: str, *, host: str = "", ticket_life_s: int = 3600, clock: str = "") -> Realm:
        """`add("a")` is A.TEST, with the hosts in a.test; its broker is at broker.a.test unless told otherwise."""
        domain = f"{letter}.test"
        kdc = Kdc(
            f"{letter.upper()}.TEST",
            self._directory / letter,
            domain=domain,
            ticket_life_s=ticket_life_s,
            clock=clock,
        )
        self._running.append(kdc.__enter__())
        os.environ["KRB5_CONFIG"] = ":".join(str(each.krb5_conf) for each in self._running)
        return Realm(kdc, host or f"broker.{domain}")


def authenticate(exchange: KerberosExchange, broker_keytab: Path, layers: int = NO_LAYER) -> str:
    """The whole of it, with an acceptor that offers `layers`; who has authenticated, by its word."""
    with Acceptor(broker_keytab, layers=layers) as broker:
        assert exchange.next(broker.accept(exchange.first())) == b""
        choice = exchange.next(broker.offer())
        assert choice is not None
        assert broker.take_choice(choice) == bytes((NO_LAYER, 0, 0, 0))
        assert exchange.next(b"") is None
        return broker.client
