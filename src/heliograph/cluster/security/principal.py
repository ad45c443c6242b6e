"""Who a client is to the brokers of a cluster, as ACLs name it.

Owns the rules that brokers have by default. A cluster may have others (ssl.principal.mapping.rules,
sasl.kerberos.principal.to.local.rules, principal.builder.class), which no client can see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from heliograph.cluster.security.settings import KeyStore, Security
from heliograph.cluster.security.store_files import read_store
from heliograph.model.errors import SecurityUnusable

if TYPE_CHECKING:
    from cryptography.x509 import Name

ANONYMOUS = "User:ANONYMOUS"
# Where the name is not known here: for the operator to replace.
_UNKNOWN_USER = "User:MIRROR"
_UNKNOWN_SUBJECT = "User:CN=MIRROR"


def principal_of(security: Security) -> str:
    """Reads the keystore, if the name is in a certificate."""
    sasl = security.sasl
    if sasl is not None and sasl.kerberos is not None:
        return _of_kerberos(sasl.kerberos.principal)
    if sasl is not None:
        return f"User:{sasl.username}"
    if security.tls is not None and security.tls.identity is not None:
        return _of_certificate(security.tls.identity)
    return ANONYMOUS


def _of_kerberos(principal: str) -> str:
    """`mirror/host@REALM` is `mirror`. With a ticket cache the principal need not be in the config."""
    name = principal.partition("@")[0].partition("/")[0]
    return f"User:{name}" if name else _UNKNOWN_USER


def _of_certificate(store: KeyStore) -> str:
    # Here, because clients without a certificate need not wait for it: 65 ms.
    from cryptography.x509 import load_der_x509_certificate

    from heliograph.cluster.security.keystores import identity_of

    try:
        data = read_store(store.location) if store.location else b""
        own = load_der_x509_certificate(identity_of(store, data).chain[0])
    except (SecurityUnusable, ValueError):
        return _UNKNOWN_SUBJECT
    return principal_of_subject(own.subject)


def principal_of_subject(subject: Name) -> str:
    """As Java writes it (RFC 2253): User:CN=mirror,O=Example."""
    return f"User:{subject.rfc4514_string()}"
