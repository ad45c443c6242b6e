"""The values that say how a cluster is secured: what each protocol means, and no secret in a repr."""

from __future__ import annotations

from heliograph.cluster.security.settings import (
    NO_SECURITY,
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
