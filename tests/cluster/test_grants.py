"""Lines that grant a right name the client as its brokers know it, and can be pasted."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509

from heliograph.cluster.grants import Resource, Right, grant_line
from heliograph.cluster.properties import parse_properties
from heliograph.cluster.security.principal import principal_of, principal_of_subject
from heliograph.cluster.security.settings import (
    KerberosSettings,
    KeyStore,
    SaslMechanism,
    SaslSettings,
    Security,
    SecurityProtocol,
    StoreKind,
    TlsSettings,
)
from tests.support.certificates import Authority, write_pem, write_pkcs12

TLS = TlsSettings()


def by_kerberos(name: str) -> Security:
    kerberos = KerberosSettings(service_name="kafka", principal=name, ticket_cache="")
    sasl = SaslSettings(mechanism=SaslMechanism.GSSAPI, kerberos=kerberos)
    return Security(protocol=SecurityProtocol.SASL_SSL, tls=TLS, sasl=sasl)


def by_certificate(store: KeyStore) -> Security:
    return Security(protocol=SecurityProtocol.SSL, tls=TlsSettings(identity=store))


@pytest.mark.parametrize(
    ("security", "named"),
    [
        (Security(), "User:ANONYMOUS"),
        (Security(protocol=SecurityProtocol.SSL, tls=TLS), "User:ANONYMOUS"),
        (by_kerberos("mirror@SF.EXAMPLE.COM"), "User:mirror"),
        (by_kerberos("mirror/host.sf.example.com@SF.EXAMPLE.COM"), "User:mirror"),
        (by_kerberos(""), "User:MIRROR"),  # whoever has the ticket
    ],
)
def test_a_client_is_known_by_how_it_comes_in(security: Security, named: str) -> None:
    assert principal_of(security) == named


@pytest.mark.parametrize("mechanism", [SaslMechanism.PLAIN, SaslMechanism.SCRAM_SHA_512])
def test_who_has_a_password_is_known_by_its_name_also_with_a_certificate(mechanism: SaslMechanism) -> None:
    sasl = SaslSettings(mechanism=mechanism, username="mirror", password="secret")
    with_both = TlsSettings(identity=KeyStore(kind=StoreKind.PEM, location="/not/read.pem"))
    security = Security(protocol=SecurityProtocol.SASL_SSL, tls=with_both, sasl=sasl)
    assert principal_of(security) == "User:mirror"


def test_who_has_a_certificate_is_known_by_its_subject(tmp_path: Path) -> None:
    issued = Authority.make("authority").issue(["mirror"], client=True)
    pem = KeyStore(kind=StoreKind.PEM, location=str(write_pem(tmp_path / "it.pem", issued=issued)))
    chain, key = issued.chain_pem.decode(), issued.key_pem.decode()
    inline = KeyStore(kind=StoreKind.PEM, pem_key=key, pem_chain=chain)
    p12 = write_pkcs12(tmp_path / "it.p12", "secret", issued=issued)
    stored = KeyStore(kind=StoreKind.PKCS12, location=str(p12), password="secret")
    assert [principal_of(by_certificate(each)) for each in (pem, inline, stored)] == ["User:CN=mirror"] * 3


def test_a_subject_is_written_as_java_does() -> None:
    written = r"CN=the mirror\, ours,OU=Kafka,O=Example,C=DE"
    assert principal_of_subject(x509.Name.from_rfc4514_string(written)) == f"User:{written}"


def test_a_certificate_that_cannot_be_read_leaves_a_name_to_replace(tmp_path: Path) -> None:
    gone = KeyStore(kind=StoreKind.PEM, location=str(tmp_path / "gone.pem"))
    assert principal_of(by_certificate(gone)) == "User:CN=MIRROR"


def test_a_line_for_a_secured_cluster_has_the_file_of_an_administrator() -> None:
    jaas = (
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="the mirror" password="x";'
    )
    properties = parse_properties(
        {
            "bootstrap.servers": "nyc:9093",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": jaas,
        }
    )
    assert grant_line(properties, Right.READ, Resource.TOPIC, ["orders"]) == (
        "kafka-acls.sh --bootstrap-server nyc:9093 --command-config admin.properties --add"
        " --allow-principal 'User:the mirror' --operation Read --topic orders"
    )
