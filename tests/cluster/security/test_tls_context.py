"""Contexts shake hands with whom the settings trust and with nobody else, and follow the files they are made of."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from heliograph.cluster.security.cipher_suites import TLS_1_3_SUITES
from heliograph.cluster.security.fingerprint import fingerprint
from heliograph.cluster.security.settings import (
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
from heliograph.cluster.security.tls_context import LOOK_INTERVAL_S, TlsContexts
from heliograph.model.errors import SecurityUnusable
from tests.support.certificates import Authority, Issued, write_pem, write_pkcs12

ROOT, OTHER = Authority.make("root"), Authority.make("other")
BETWEEN = ROOT.subordinate("between")
SERVER = BETWEEN.issue(["broker-1", "127.0.0.1"])
CLIENT = ROOT.issue(["mirror"], client=True)
PEM = StoreKind.PEM


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def trusting(*authorities: Authority) -> TrustStore:
    return TrustStore(kind=PEM, pem="".join(each.certificate_pem.decode() for each in authorities))


def presenting(issued: Issued) -> KeyStore:
    return KeyStore(kind=PEM, pem_key=issued.key_pem.decode(), pem_chain=issued.chain_pem.decode())


TRUSTING = TlsSettings(trust=trusting(ROOT))


@pytest.fixture
def served(tmp_path: Path) -> ssl.SSLContext:
    return server(tmp_path, SERVER)


def server(directory: Path, issued: Issued, *, demands: Authority | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(write_pem(directory / "server.pem", issued=issued))
    if demands is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=demands.certificate_pem.decode())
    return context


def shake(
    client: ssl.SSLContext, served: ssl.SSLContext, host: str = "broker-1"
) -> tuple[ssl.SSLObject, ...]:
    """Both ends after the handshake, in memory; the error of whoever refuses first."""
    wires = [ssl.MemoryBIO(), ssl.MemoryBIO()]
    ends = (
        client.wrap_bio(wires[0], wires[1], server_hostname=host),
        served.wrap_bio(wires[1], wires[0], server_side=True),
    )
    for _ in range(10):
        waiting = 0
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                waiting += 1
        if not waiting:
            return ends
    raise AssertionError("the handshake does not end")


def test_a_broker_of_a_trusted_authority_is_accepted(served: ssl.SSLContext) -> None:
    client, _ = shake(TlsContexts(TRUSTING).current(), served)
    assert client.version() == "TLSv1.3"


@pytest.mark.parametrize(
    ("settings", "host", "words"),
    [
        (TlsSettings(trust=trusting(OTHER)), "broker-1", "unable to get local issuer"),
        (TlsSettings(), "broker-1", "unable to get local issuer"),
        (TRUSTING, "broker-2", "Hostname mismatch"),
        (TRUSTING, "127.0.0.2", "IP address mismatch"),
        (
            replace(TRUSTING, checks_host=False, trust=trusting(OTHER)),
            "broker-1",
            "unable to get local issuer",
        ),
    ],
)
def test_any_other_broker_is_refused(
    served: ssl.SSLContext, settings: TlsSettings, host: str, words: str
) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match=words):
        shake(TlsContexts(settings).current(), served, host)


def test_an_expired_certificate_is_refused(tmp_path: Path) -> None:
    served = server(tmp_path, ROOT.issue(["broker-1"], expired=True))
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        shake(TlsContexts(TRUSTING).current(), served)


def test_without_a_check_of_the_host_any_broker_of_the_authority_is_accepted(served: ssl.SSLContext) -> None:
    assert shake(TlsContexts(replace(TRUSTING, checks_host=False)).current(), served, "broker-2")


def test_an_authority_that_another_one_has_signed_is_trusted_by_itself(served: ssl.SSLContext) -> None:
    assert shake(TlsContexts(TlsSettings(trust=trusting(BETWEEN))).current(), served)


def test_we_show_our_certificate_to_a_broker_that_demands_one(tmp_path: Path) -> None:
    served = server(tmp_path, SERVER, demands=ROOT)
    settings = replace(TRUSTING, identity=presenting(CLIENT))
    _, broker = shake(TlsContexts(settings).current(), served)
    shown = broker.getpeercert(binary_form=True)
    assert shown == ssl.PEM_cert_to_DER_cert(CLIENT.chain_pem.decode())


def test_our_whole_chain_is_shown(tmp_path: Path) -> None:
    served = server(tmp_path, SERVER, demands=ROOT)
    settings = replace(TRUSTING, identity=presenting(BETWEEN.issue(["mirror"], client=True)))
    assert shake(TlsContexts(settings).current(), served)


def test_a_private_key_leaves_nothing_open_behind() -> None:
    before = set(os.listdir("/proc/self/fd"))
    TlsContexts(replace(TRUSTING, identity=presenting(CLIENT))).current()
    assert set(os.listdir("/proc/self/fd")) <= before


def test_a_key_of_another_certificate_is_told() -> None:
    strange = replace(presenting(CLIENT), pem_chain=SERVER.chain_pem.decode())
    with pytest.raises(SecurityUnusable, match="does not belong to the first certificate") as caught:
        TlsContexts(replace(TRUSTING, identity=strange)).current()
    assert "first" in caught.value.hint


def test_a_certificate_that_is_none_is_told() -> None:
    text = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    with pytest.raises(SecurityUnusable, match=r"certificate 2 in ssl\.truststore\.certificates is damaged"):
        TlsContexts(
            TlsSettings(trust=TrustStore(kind=PEM, pem=ROOT.certificate_pem.decode() + text))
        ).current()
    with pytest.raises(SecurityUnusable, match=r"a certificate in ssl\.keystore\.key is damaged"):
        TlsContexts(replace(TRUSTING, identity=replace(presenting(CLIENT), pem_chain=text))).current()


def test_a_system_without_authorities_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    with pytest.raises(SecurityUnusable, match="no authorities to trust") as caught:
        TlsContexts(TlsSettings()).current()
    assert "ssl.truststore.location" in caught.value.hint


def test_the_systems_authorities_are_trusted_without_a_truststore(
    tmp_path: Path, served: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(write_pem(tmp_path / "system.pem", trusted=[ROOT])))
    assert shake(TlsContexts(TlsSettings()).current(), served)
    with pytest.raises(ssl.SSLCertVerificationError):  # a truststore is the only trust
        shake(TlsContexts(TlsSettings(trust=trusting(OTHER))).current(), served)


@pytest.mark.parametrize("protocols", [("TLSv1.2",), ("TLSv1.3",), ("TLSv1.2", "TLSv1.3")])
def test_only_these_protocols_are_spoken(served: ssl.SSLContext, protocols: tuple[str, ...]) -> None:
    context = TlsContexts(replace(TRUSTING, protocols=protocols)).current()
    assert shake(context, served)[0].version() == protocols[-1]
    if protocols == ("TLSv1.3",):
        served.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError):
            shake(context, served)


def test_only_these_suites_are_offered(served: ssl.SSLContext) -> None:
    suites = ("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384",)
    context = TlsContexts(replace(TRUSTING, protocols=("TLSv1.2",), cipher_suites=suites)).current()
    cipher = shake(context, served)[0].cipher()
    assert cipher is not None
    assert cipher[0] == "ECDHE-ECDSA-AES256-SHA384"
    context = TlsContexts(replace(TRUSTING, protocols=("TLSv1.3",), cipher_suites=TLS_1_3_SUITES)).current()
    assert shake(context, served)


# -- files that change


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return write_pkcs12(tmp_path / "trust.p12", "secret", trusted=[ROOT])


def in_file(path: Path, password: str = "secret") -> TlsSettings:
    return TlsSettings(trust=TrustStore(kind=StoreKind.PKCS12, location=str(path), password=password))


def test_a_file_that_changes_counts_for_the_next_connection(store: Path, served: ssl.SSLContext) -> None:
    clock = Clock()
    contexts = TlsContexts(in_file(store), clock=clock)
    first = contexts.current()
    assert shake(first, served)
    write_pkcs12(store, "secret", trusted=[OTHER])
    assert contexts.current() is first  # looked at a moment ago
    clock.now += LOOK_INTERVAL_S
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(contexts.current(), served)
    assert shake(first, served)  # what is in use is left alone


def test_a_file_that_stays_gives_the_same_context(store: Path) -> None:
    clock = Clock()
    contexts = TlsContexts(in_file(store), clock=clock)
    first = contexts.current()
    os.utime(store, (0, 0))
    clock.now += LOOK_INTERVAL_S
    assert contexts.current() is first


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(b"half"), lambda path: path.unlink()])
def test_a_file_that_cannot_be_used_any_more_leaves_the_last_context_and_a_problem(
    store: Path, damage: Callable[[Path], object]
) -> None:
    clock = Clock()
    contexts = TlsContexts(in_file(store), clock=clock)
    first, sound = contexts.current(), store.read_bytes()
    assert contexts.problem is None
    damage(store)
    clock.now += LOOK_INTERVAL_S
    assert contexts.current() is first
    assert contexts.problem is not None
    assert str(store) in contexts.problem.message
    store.write_bytes(sound)
    clock.now += LOOK_INTERVAL_S
    assert contexts.current() is first
    assert contexts.problem is None


def test_without_any_context_the_problem_is_raised_until_it_is_mended(store: Path) -> None:
    contexts = TlsContexts(in_file(store, "wrong"), clock=Clock())
    with pytest.raises(SecurityUnusable, match=r"cannot be opened with ssl\.truststore\.password"):
        contexts.current()
    write_pkcs12(store, "wrong", trusted=[ROOT])
    assert contexts.current().cert_store_stats()["x509"] == 1
    assert contexts.problem is None


def test_any_thread_may_ask(store: Path) -> None:
    contexts = TlsContexts(in_file(store))
    found: list[ssl.SSLContext] = []
    threads = [threading.Thread(target=lambda: found.append(contexts.current())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1
    assert len(found) == len(threads)


# -- whether the secret has changed


def test_a_fingerprint_changes_with_every_secret_and_every_file(tmp_path: Path, store: Path) -> None:
    keytab = tmp_path / "m.keytab"
    kerberos = KerberosSettings(service_name="kafka", principal="m", keytab=str(keytab))
    security = Security(
        protocol=SecurityProtocol.SASL_SSL,
        tls=in_file(store),
        sasl=SaslSettings(mechanism=SaslMechanism.GSSAPI, kerberos=kerberos),
    )
    seen = [fingerprint(security)]
    keytab.write_bytes(b"keys")
    seen.append(fingerprint(security))
    keytab.write_bytes(b"other keys")
    seen.append(fingerprint(security))
    write_pkcs12(store, "secret", trusted=[OTHER])
    seen.append(fingerprint(security))
    seen.append(fingerprint(replace(security, tls=in_file(store, "other"))))
    scram = SaslSettings(mechanism=SaslMechanism.SCRAM_SHA_256, username="a", password="b")
    seen += [fingerprint(replace(security, sasl=each)) for each in (scram, replace(scram, password="c"))]
    assert len(set(seen)) == len(seen)
    assert fingerprint(security) == seen[3]


def test_a_ticket_cache_counts_where_it_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    cache.write_bytes(b"old")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{cache}")
    kerberos = KerberosSettings(service_name="kafka", ticket_cache="")
    sasl = SaslSettings(mechanism=SaslMechanism.GSSAPI, kerberos=kerberos)
    security = Security(protocol=SecurityProtocol.SASL_PLAINTEXT, sasl=sasl)
    before = fingerprint(security)
    assert fingerprint(security) == before
    cache.write_bytes(b"new")
    assert fingerprint(security) != before
