"""The values that say how a cluster is secured: what each protocol means, and no secret in a repr."""

from __future__ import annotations

import pytest

from heliograph.cluster.grants import Resource, Right, grant_line
from heliograph.cluster.properties import ClientProperties
from heliograph.cluster.security.settings import (
    NO_SECURITY,
    KerberosSettings,
    KeyStore,
    SaslMechanism,
    SaslSettings,
    Security,
    SecurityProtocol,
    StoreKind,
    TlsSettings,
    TrustStore,
)


def test_each_protocol_says_whether_it_encrypts_and_whether_sasl_authenticates() -> None:
    assert [each for each in SecurityProtocol if each.encrypts] == ["SSL", "SASL_SSL"]
    assert [each for each in SecurityProtocol if each.authenticates] == ["SASL_PLAINTEXT", "SASL_SSL"]
    assert NO_SECURITY.protocol is SecurityProtocol.PLAINTEXT


def test_no_secret_is_in_a_repr() -> None:
    secret = "hunter2"
    keys = KeyStore(
        kind=StoreKind.PEM, pem_key=secret, pem_chain=secret, password=secret, key_password=secret
    )
    trust = TrustStore(kind=StoreKind.PEM, pem=secret, password=secret)
    sasl = SaslSettings(mechanism=SaslMechanism.PLAIN, username="alice", password=secret)
    everything = Security(
        protocol=SecurityProtocol.SASL_SSL, tls=TlsSettings(trust=trust, identity=keys), sasl=sasl
    )
    assert secret not in repr(everything)
    assert "alice" in repr(everything)


SCRAM = SaslSettings(mechanism=SaslMechanism.SCRAM_SHA_512, username="the mirror", password="x")
KEYTAB = KerberosSettings(service_name="kafka", principal="mirror/host@EX.ORG", keytab="/m")
CACHE = KerberosSettings(service_name="kafka", ticket_cache="")
OWN = TlsSettings(identity=KeyStore(kind=StoreKind.PEM, location="/k"))


@pytest.mark.parametrize(
    ("security", "user"),
    [
        (NO_SECURITY, "User:ANONYMOUS"),
        (Security(tls=TlsSettings()), "User:ANONYMOUS"),
        (Security(tls=OWN), "User:MIRROR"),
        (Security(tls=OWN, sasl=SCRAM), "'User:the mirror'"),
        (Security(sasl=SaslSettings(mechanism=SaslMechanism.GSSAPI, kerberos=KEYTAB)), "User:mirror"),
        (Security(sasl=SaslSettings(mechanism=SaslMechanism.GSSAPI, kerberos=CACHE)), "User:MIRROR"),
    ],
)
def test_a_line_that_grants_a_right_names_the_user_that_brokers_know(security: Security, user: str) -> None:
    properties = ClientProperties(bootstrap_servers=(("a", 1),), security=security)
    assert f" --allow-principal {user} --operation " in grant_line(properties, Right.ALTER, Resource.CLUSTER)
