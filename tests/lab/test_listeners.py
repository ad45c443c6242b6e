from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from heliograph.lab.cluster import Description, LabCluster, read_description
from heliograph.lab.listeners import (
    KerberosService,
    Listener,
    Sasl,
    Tls,
    java_options,
    listener_settings,
    scram_arguments,
)
from heliograph.lab.settings import broker_settings, choose_nodes
from heliograph.model.errors import LabError

TLS = Tls(keystore=Path("/keys/broker.pem"))
USERS = {"alice": "of alice"}
KERBEROS = KerberosService(
    principal="kafka/localhost@SF.TEST", keytab=Path("/keys/kafka.keytab"), krb5_conf=Path("/keys/krb5.conf")
)


@pytest.mark.parametrize(
    ("listener", "protocol"),
    [
        (Listener(name="A"), "PLAINTEXT"),
        (Listener(name="A", tls=TLS), "SSL"),
        (Listener(name="A", sasl=Sasl(mechanisms=("PLAIN",))), "SASL_PLAINTEXT"),
        (Listener(name="A", tls=TLS, sasl=Sasl(mechanisms=("PLAIN",))), "SASL_SSL"),
    ],
)
def test_what_a_listener_has_is_its_protocol(listener: Listener, protocol: str) -> None:
    assert listener.protocol == protocol


def test_a_listener_beside_the_plain_one_has_its_own_port_host_and_protocol() -> None:
    listener = Listener(name="SCRAM", tls=TLS, sasl=Sasl(mechanisms=("SCRAM-SHA-512",), users=USERS))
    (node,) = nodes = choose_nodes(1, ["SCRAM"])
    settings = broker_settings(
        node, nodes=nodes, data_directory=Path("/data"), properties={}, listeners=[listener]
    )
    port = node.listener_ports["SCRAM"]
    controller = f"CONTROLLER://127.0.0.1:{node.controller_port}"
    assert settings["listeners"] == f"PLAINTEXT://127.0.0.1:{node.port},SCRAM://127.0.0.1:{port},{controller}"
    assert settings["advertised.listeners"] == f"PLAINTEXT://127.0.0.1:{node.port},SCRAM://localhost:{port}"
    protocols = "PLAINTEXT:PLAINTEXT,SCRAM:SASL_SSL,CONTROLLER:PLAINTEXT"
    assert settings["listener.security.protocol.map"] == protocols
    assert settings["listener.name.scram.ssl.keystore.location"] == "/keys/broker.pem"


def test_settings_of_a_listener_are_under_its_name() -> None:
    listener = Listener(name="ALL", tls=TLS, properties={"ssl.enabled.protocols": "TLSv1.2"})
    assert listener_settings(listener) == {
        "listener.name.all.ssl.keystore.type": "PEM",
        "listener.name.all.ssl.keystore.location": "/keys/broker.pem",
        "listener.name.all.ssl.enabled.protocols": "TLSv1.2",
    }


def test_authorities_of_clients_make_their_certificates_required() -> None:
    settings = listener_settings(Listener(name="m", tls=replace(TLS, client_trust=Path("/keys/ca.pem"))))
    assert settings["listener.name.m.ssl.truststore.location"] == "/keys/ca.pem"
    assert settings["listener.name.m.ssl.client.auth"] == "required"


def test_users_of_plain_are_quoted_as_jaas_wants_it() -> None:
    sasl = Sasl(mechanisms=("PLAIN",), users={"a=b": 'c"d\\e;'}, reauth_ms=10_000)
    settings = listener_settings(Listener(name="p", sasl=sasl))
    assert settings["listener.name.p.plain.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.plain.PlainLoginModule required"
        r' "user_a=b"="c\"d\\e;";'
    )
    assert settings["listener.name.p.plain.connections.max.reauth.ms"] == "10000"


def test_kerberos_adds_gssapi_and_its_krb5_conf() -> None:
    listener = Listener(name="k", sasl=Sasl(mechanisms=("PLAIN",), users=USERS, kerberos=KERBEROS))
    settings = listener_settings(listener)
    assert settings["listener.name.k.sasl.enabled.mechanisms"] == "PLAIN,GSSAPI"
    assert settings["listener.name.k.sasl.kerberos.service.name"] == "kafka"
    assert '"keyTab"="/keys/kafka.keytab"' in settings["listener.name.k.gssapi.sasl.jaas.config"]
    assert java_options([listener]) == ("-Djava.security.krb5.conf=/keys/krb5.conf",)


def test_two_krb5_confs_for_one_broker_are_refused() -> None:
    others = [KERBEROS, replace(KERBEROS, krb5_conf=Path("/other.conf"))]
    with pytest.raises(LabError, match=r"one krb5\.conf, not /keys/krb5\.conf, /other\.conf"):
        java_options([Listener(name=f"k{at}", sasl=Sasl(kerberos=each)) for at, each in enumerate(others)])


def test_no_password_is_an_argument_of_a_process_or_in_a_repr() -> None:
    sasl = Sasl(mechanisms=("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"), users={"alice": "of-alice"})
    arguments = scram_arguments([Listener(name="a", sasl=sasl), Listener(name="b", sasl=sasl)])
    assert [each.partition(",")[0] for each in arguments] == [
        '--add-scram=SCRAM-SHA-256=[name="alice"',
        '--add-scram=SCRAM-SHA-512=[name="alice"',
    ]
    assert "of-alice" not in repr((arguments, sasl))


def test_a_cluster_that_is_found_again_knows_its_listeners(tmp_path: Path) -> None:
    listener = Listener(name="K", host="sf.test", sasl=Sasl(kerberos=KERBEROS))
    described = Description(
        name="sf",
        kafka="4.3.1",
        heap_mb=512,
        nodes=choose_nodes(2, ["K"]),
        listener_hosts={"K": listener.host},
        java_options=java_options([listener]),
    )
    described.write(tmp_path)
    assert read_description(tmp_path) == described


def test_a_cluster_with_zookeeper_has_no_secured_listeners(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"not of 2\.8\.2"):
        LabCluster.made(
            name="old", kafka="2.8.2", directory=tmp_path, listeners=[Listener(name="A", tls=TLS)]
        )
