"""How a cluster is secured, as frozen values: which protocol, whom to trust, who we are.

Owns the shape that the rest of `cluster` relies on. Must not know Kafka's property names (security_properties.py) nor
open a file (keystores.py, tls_context.py, kerberos.py). What is secret, or may hold a key by mistake, is in no repr.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class SecurityProtocol(StrEnum):
    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def encrypts(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def authenticates(self) -> bool:
        """By SASL. A client certificate is TLS's own matter."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class StoreKind(StrEnum):
    PEM = "PEM"
    PKCS12 = "PKCS12"
    JKS = "JKS"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustStore:
    """Certificates of the authorities that are trusted: a file, or `pem` as text."""

    kind: StoreKind
    location: str = ""
    pem: str = field(default="", repr=False)
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStore:
    """Our own certificate and its private key: a file that holds both, or two texts in PEM."""

    kind: StoreKind
    location: str = ""
    pem_key: str = field(default="", repr=False)
    pem_chain: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """`trust` None: the authorities that the system trusts. `checks_host`: whether a certificate must name the broker's
    host; that a trusted authority has signed it is checked in any case. `protocols` by Java's names."""

    trust: TrustStore | None = None
    identity: KeyStore | None = None
    checks_host: bool = True
    protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] = ()


class SaslMechanism(StrEnum):
    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    GSSAPI = "GSSAPI"


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosSettings:
    """`service_name`: the first part of the brokers' principals. `ticket_cache` None: tickets come by `keytab`; empty:
    from the default cache."""

    service_name: str
    principal: str = ""
    keytab: str = ""
    ticket_cache: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """`username` and `password` for PLAIN and SCRAM, `kerberos` for GSSAPI."""

    mechanism: SaslMechanism
    username: str = ""
    password: str = field(default="", repr=False)
    kerberos: KerberosSettings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """`tls` is there if the protocol encrypts, `sasl` if it authenticates."""

    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None


NO_SECURITY = Security()
