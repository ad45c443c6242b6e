"""Two real clusters of one broker each, secured in every way but Kerberos; and larger ones with one way in.

Owns their authorities, users and listeners. Must not know the mirror. Both clusters have the same listeners, so that
each of the source's can be mirrored to each of the target's; authority, certificates and passwords are their own.

    SCRAM     SASL_SSL, SCRAM-SHA-512 and SCRAM-SHA-256
    PLAIN     SASL_SSL, PLAIN
    REAUTH    SASL_SSL, SCRAM-SHA-512 and PLAIN; a session lasts 10 s
    CLEAR     SASL_PLAINTEXT, SCRAM-SHA-256 and PLAIN
    MUTUAL    SSL; a client must have a certificate
    ONE_WAY   SSL
    EXPIRED   SSL; the broker's certificate has expired

Brokers' certificates are for `localhost`: who comes by 127.0.0.1 meets one for another host.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from heliograph.lab.cluster import LabCluster
from heliograph.lab.listeners import Listener, Sasl, Tls
from heliograph.lab.together import started_together

from .certificates import Authority, Issued, write_pem
from .client_access import Access, Spoken, access, identity, login, protocol, trust

REAUTH_MS = 10_000
USER = "mirror"
ODD_USER = "odd=user"  # SCRAM escapes "=" on its way
ODD_PASSWORD = 'quo"te \\back; a,b=c größer'


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What brokers and clients of one cluster prove themselves with; files of it are in `directory`."""

    directory: Path
    authority: Authority = field(repr=False)
    client: Issued = field(repr=False)
    users: Mapping[str, str] = field(repr=False)

    @classmethod
    def make(cls, name: str, directory: Path) -> Credentials:
        authority = Authority.make(name)
        made = cls(
            directory=directory,
            authority=authority,
            client=authority.issue([USER], client=True),
            users={USER: secrets.token_urlsafe(16), ODD_USER: ODD_PASSWORD},
        )
        directory.mkdir()
        write_pem(made.trust_file, trusted=[authority])
        write_pem(made.client_file, issued=made.client)
        return made

    @property
    def trust_file(self) -> Path:
        return self.directory / "trust.pem"

    @property
    def client_file(self) -> Path:
        return self.directory / "client.pem"

    def listeners(self) -> tuple[Listener, ...]:
        mutual = Tls(keystore=self._keystore("MUTUAL"), client_trust=self.trust_file)
        return (
            Listener(name="SCRAM", tls=self._tls("SCRAM"), sasl=self._sasl("SCRAM-SHA-512", "SCRAM-SHA-256")),
            Listener(name="PLAIN", tls=self._tls("PLAIN"), sasl=self._sasl("PLAIN")),
            Listener(
                name="REAUTH",
                tls=self._tls("REAUTH"),
                sasl=self._sasl("SCRAM-SHA-512", "PLAIN", reauth_ms=REAUTH_MS),
            ),
            Listener(name="CLEAR", sasl=self._sasl("SCRAM-SHA-256", "PLAIN")),
            Listener(name="MUTUAL", tls=mutual),
            Listener(name="ONE_WAY", tls=self._tls("ONE_WAY")),
            Listener(name="EXPIRED", tls=Tls(keystore=self._keystore("EXPIRED", expired=True))),
        )

    def _tls(self, listener: str) -> Tls:
        return Tls(keystore=self._keystore(listener))

    def _keystore(self, listener: str, *, expired: bool = False) -> Path:
        """One for each listener, so that the certificate of each can be changed by itself."""
        issued = self.authority.issue(["localhost"], expired=expired)
        return write_pem(self.directory / f"broker-{listener.lower()}.pem", issued=issued)

    def _sasl(self, *mechanisms: str, reauth_ms: int = 0) -> Sasl:
        return Sasl(mechanisms=mechanisms, users=self.users, reauth_ms=reauth_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuredCluster:
    cluster: LabCluster
    credentials: Credentials
    listeners: tuple[Listener, ...]

    @property
    def plain(self) -> str:
        """Bootstrap servers that are open to anybody: for topics, and to change users and certificates."""
        return self.cluster.bootstrap_servers

    def listener(self, name: str) -> Listener:
        return next(each for each in self.listeners if each.name == name)

    def refusals(self) -> int:
        """How often brokers did not let somebody in, at first or when a session was renewed, by their own word."""
        logs = [broker.log_path.read_text() for broker in self.cluster.brokers]
        return sum(len(re.findall("Failed (?:re-)?authentication", log)) for log in logs)

    def access(
        self,
        listener: str,
        *,
        mechanism: str | None = None,
        user: str = USER,
        password: str | None = None,
        certificate: bool = True,
    ) -> Access:
        """By the listener's first mechanism and with the right password, unless told otherwise. `certificate`: whether
        the client has one, where it must."""
        found = self.listener(listener)
        parts = [protocol(found.protocol)]
        if found.tls is not None:
            parts.extend(self._tls_parts(found.tls, certificate))
        if found.sasl is not None:
            secret = self.credentials.users[user] if password is None else password
            parts.append(login(mechanism or found.sasl.mechanisms[0], user, secret))
        return access(self.cluster.servers(listener), parts)

    def _tls_parts(self, tls: Tls, certificate: bool) -> Iterator[Spoken]:
        yield trust(self.credentials.authority, self.credentials.trust_file)
        if tls.client_trust is not None and certificate:
            yield identity(self.credentials.client, self.credentials.client_file)


@contextmanager
def start_secured(
    name: str, directory: Path, listener: str, *, brokers: int, heap_mb: int, properties: Mapping[str, str]
) -> Iterator[SecuredCluster]:
    """A cluster of several brokers with one of the listeners beside the plain one. `directory` gets its files."""
    credentials = Credentials.make(name, directory)
    listeners = tuple(each for each in credentials.listeners() if each.name == listener)
    with LabCluster.start(
        name=name, brokers=brokers, heap_mb=heap_mb, properties=properties, listeners=listeners
    ) as cluster:
        yield SecuredCluster(cluster=cluster, credentials=credentials, listeners=listeners)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuredPair:
    source: SecuredCluster
    target: SecuredCluster


@contextmanager
def start_secured_pair(directory: Path) -> Iterator[SecuredPair]:
    """Started together. `directory` gets the files of both."""
    names = ("source", "target")
    credentials = {name: Credentials.make(name, directory / name) for name in names}
    listeners = {name: credentials[name].listeners() for name in names}
    with started_together(*names, listeners=listeners) as clusters:
        source, target = (
            SecuredCluster(cluster=each, credentials=credentials[each.name], listeners=listeners[each.name])
            for each in clusters
        )
        yield SecuredPair(source=source, target=target)
