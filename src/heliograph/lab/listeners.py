"""Secured listeners of a lab cluster, beside its plain one: TLS, SASL or both, and what each is in server.properties.

Owns the values and Kafka's names for them. Must not know ports (settings.py) nor processes. Brokers speak to each
other, and the lab to them, in plain text: a listener here is for clients only. Its protocol follows from what it has:

    tls   sasl
     -     -     PLAINTEXT
    yes    -     SSL, mutual if `client_trust` is given
     -    yes    SASL_PLAINTEXT
    yes   yes    SASL_SSL
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from heliograph.model.errors import LabError

PLAIN = "PLAIN"
GSSAPI = "GSSAPI"
SCRAM_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
SCRAM_ITERATIONS = 4096  # the least that brokers take, and their own default

PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"
KERBEROS_LOGIN = "com.sun.security.auth.module.Krb5LoginModule"
_ANONYMOUS = "User:ANONYMOUS"  # who comes in plain text: the brokers themselves, and the lab


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Files in PEM. `keystore`: a private key (PKCS8) and its chain. `client_trust`: the authorities of clients, which
    then must have a certificate."""

    keystore: Path
    client_trust: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosService:
    """Who a broker is to Kerberos: `principal` is `kafka/localhost@REALM`, with its key in `keytab`."""

    principal: str
    keytab: Path
    krb5_conf: Path  # a JVM reads one: the same for all listeners of a cluster

    @property
    def service_name(self) -> str:
        return self.principal.partition("/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sasl:
    """`users`: passwords by name, for each of `mechanisms`. Users of SCRAM belong to the cluster: they may come in by
    every listener that has their mechanism. `kerberos` adds GSSAPI. `reauth_ms`: how long a session lasts; 0: for ever.
    """

    mechanisms: tuple[str, ...] = ()
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    kerberos: KerberosService | None = None
    reauth_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """`host`: what clients are told. `properties`: of this listener alone, such as ssl.enabled.protocols."""

    name: str
    host: str = "localhost"
    tls: Tls | None = None
    sasl: Sasl | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def protocol(self) -> str:
        below = "SSL" if self.tls else "PLAINTEXT"
        return f"SASL_{below}" if self.sasl else below


def listener_settings(listener: Listener) -> dict[str, str]:
    """All that a broker is to know of it but its address."""
    tls = _tls_settings(listener.tls) if listener.tls else {}
    sasl = _sasl_settings(listener.sasl) if listener.sasl else {}
    prefix = f"listener.name.{listener.name.lower()}."
    return {prefix + key: value for key, value in {**tls, **sasl, **listener.properties}.items()}


def _tls_settings(tls: Tls) -> dict[str, str]:
    own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tls.keystore)}
    if tls.client_trust is None:
        return own
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(tls.client_trust)}
    return {**own, **trust, "ssl.client.auth": "required"}


def _sasl_settings(sasl: Sasl) -> dict[str, str]:
    logins = {each: _password_login(each, sasl.users) for each in sasl.mechanisms}
    settings: dict[str, str] = {}
    if sasl.kerberos is not None:
        logins[GSSAPI] = _kerberos_login(sasl.kerberos)
        settings["sasl.kerberos.service.name"] = sasl.kerberos.service_name
    settings["sasl.enabled.mechanisms"] = ",".join(logins)
    for mechanism, login in logins.items():
        settings[f"{mechanism.lower()}.sasl.jaas.config"] = login
        settings[f"{mechanism.lower()}.connections.max.reauth.ms"] = str(sasl.reauth_ms)
    return settings


def _password_login(mechanism: str, users: Mapping[str, str]) -> str:
    if mechanism == PLAIN:
        return login_line(PLAIN_LOGIN, {f"user_{name}": password for name, password in users.items()})
    return login_line(SCRAM_LOGIN, {})  # its users are the cluster's (scram_arguments)


def _kerberos_login(service: KerberosService) -> str:
    keys = {"useKeyTab": "true", "storeKey": "true", "keyTab": str(service.keytab)}
    return login_line(KERBEROS_LOGIN, {**keys, "principal": service.principal})


def login_line(module: str, options: Mapping[str, str]) -> str:
    """A value of sasl.jaas.config."""
    quoted = "".join(f" {_quoted(key)}={_quoted(value)}" for key, value in options.items())
    return f"{module} required{quoted};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def scram_arguments(listeners: Iterable[Listener]) -> tuple[str, ...]:
    """Of StorageTool's `format`, which makes the users of SCRAM. Passwords are salted here, because the process list
    shows arguments, and because the tool splits them at every comma: names must hold none."""
    users = {
        (mechanism, name): password
        for listener in listeners
        if listener.sasl is not None
        for mechanism in listener.sasl.mechanisms
        if mechanism in SCRAM_HASHES
        for name, password in listener.sasl.users.items()
    }
    return tuple(
        f"--add-scram={_scram_credential(mechanism, name, password)}"
        for (mechanism, name), password in users.items()
    )


def _scram_credential(mechanism: str, name: str, password: str) -> str:
    salt = os.urandom(16)
    salted = hashlib.pbkdf2_hmac(SCRAM_HASHES[mechanism], password.encode(), salt, SCRAM_ITERATIONS)
    secret = f'salt="{_base64(salt)}",saltedpassword="{_base64(salted)}"'
    return f'{mechanism}=[name="{name}",{secret},iterations={SCRAM_ITERATIONS}]'


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def java_options(listeners: Iterable[Listener]) -> tuple[str, ...]:
    """What the JVM of a broker with these listeners is started with."""
    found = {each.sasl.kerberos.krb5_conf for each in listeners if each.sasl and each.sasl.kerberos}
    if len(found) > 1:
        named = ", ".join(sorted(map(str, found)))
        raise LabError(f"a broker has one krb5.conf, not {named}", hint="give all listeners the same one")
    return tuple(f"-Djava.security.krb5.conf={path}" for path in found)


def authorizer_properties(super_users: Iterable[str] = ()) -> dict[str, str]:
    """Properties of a cluster that checks rights: nobody has any but super users (`User:admin`), and who comes in plain
    text is one of them."""
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": ";".join((_ANONYMOUS, *super_users)),
    }
