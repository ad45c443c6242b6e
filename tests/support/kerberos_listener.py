"""A listener of real brokers for the clients of a Kerberos realm."""

from __future__ import annotations

from heliograph.lab.listeners import KerberosService, Listener, Sasl, Tls

from .kerberos_realm import Realm

LISTENER = "KERBEROS"


def kerberos_listener(realm: Realm, *, reauth_ms: int, tls: Tls | None = None) -> Listener:
    """At the host for which the realm has a service."""
    service = KerberosService(
        principal=f"{realm.service}@{realm.kdc.realm}",
        keytab=realm.broker_keytab,
        krb5_conf=realm.kdc.krb5_conf,
    )
    return Listener(name=LISTENER, host=realm.host, tls=tls, sasl=Sasl(kerberos=service, reauth_ms=reauth_ms))
