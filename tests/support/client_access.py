"""What a client needs to come in by a secured listener, said twice: in Kafka's own names, for Heliograph, and in
librdkafka's, for the judge.

Owns both sets of names. Must not know clusters, nor how Heliograph reads its properties: the judge is to show that both
mean the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from heliograph.lab.listeners import PLAIN, PLAIN_LOGIN, SCRAM_LOGIN, login_line

from .certificates import Authority, Issued


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """The same in Kafka's own names (`properties`) and in librdkafka's."""

    properties: Mapping[str, str] = field(repr=False)
    librdkafka: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access(Spoken):
    bootstrap_servers: str

    @property
    def client(self) -> dict[str, str]:
        """All that Heliograph's config says about the cluster."""
        return {"bootstrap.servers": self.bootstrap_servers, **self.properties}


def client_properties(client: str | Mapping[str, str]) -> dict[str, str]:
    """`client`: all properties, or the bootstrap servers where nothing is secured."""
    return {"bootstrap.servers": client} if isinstance(client, str) else dict(client)


def access(bootstrap_servers: str, parts: Iterable[Spoken]) -> Access:
    said = tuple(parts)
    return Access(
        bootstrap_servers=bootstrap_servers,
        properties={name: value for part in said for name, value in part.properties.items()},
        librdkafka={name: value for part in said for name, value in part.librdkafka.items()},
    )


def protocol(name: str) -> Spoken:
    return Spoken(properties={"security.protocol": name}, librdkafka={"security.protocol": name})


def trust(authority: Authority, file: Path) -> Spoken:
    """`file` holds the authority's certificate."""
    return Spoken(
        properties=_store("truststore", file),
        librdkafka={"ssl.ca.pem": authority.certificate_pem.decode()},
    )


def identity(issued: Issued, file: Path) -> Spoken:
    """`file` holds key and chain."""
    key, chain = issued.key_pem.decode(), issued.chain_pem.decode()
    return Spoken(
        properties=_store("keystore", file),
        librdkafka={"ssl.key.pem": key, "ssl.certificate.pem": chain},
    )


def login(mechanism: str, user: str, password: str) -> Spoken:
    module = PLAIN_LOGIN if mechanism == PLAIN else SCRAM_LOGIN
    line = login_line(module, {"username": user, "password": password})
    return Spoken(
        properties={"sasl.mechanism": mechanism, "sasl.jaas.config": line},
        librdkafka={"sasl.mechanisms": mechanism, "sasl.username": user, "sasl.password": password},
    )


def _store(kind: str, file: Path) -> dict[str, str]:
    return {f"ssl.{kind}.type": "PEM", f"ssl.{kind}.location": str(file)}
