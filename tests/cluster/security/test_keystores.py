"""Keystores and truststores: every format gives the same, and what is wrong with one is told with file and remedy."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509 import load_der_x509_certificate
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heliograph.cluster.security.identity import Identity
from heliograph.cluster.security.keystores import identity_of, trusted_certificates
from heliograph.cluster.security.settings import KeyStore, StoreKind, TrustStore
from heliograph.cluster.security.store_files import LARGEST_BYTES, read_store
from heliograph.model.errors import SecurityUnusable
from tests.support.certificates import Authority, Issued, keytool, write_jks, write_pem, write_pkcs12

PASSWORD = "hunter2"
ROOT, OTHER = Authority.make("root"), Authority.make("other")
BETWEEN = ROOT.subordinate("between")
ISSUED = BETWEEN.issue(["mirror"], client=True)
PEM, PKCS12, JKS = StoreKind.PEM, StoreKind.PKCS12, StoreKind.JKS


def trusted(path: Path, kind: StoreKind, password: str = "") -> tuple[bytes, ...]:
    store = TrustStore(kind=kind, location=str(path), password=password)
    return trusted_certificates(store, read_store(str(path)))


def identity(path: Path, kind: StoreKind, password: str = "", key_password: str = "") -> Identity:
    store = KeyStore(kind=kind, location=str(path), password=password, key_password=key_password)
    return identity_of(store, read_store(str(path)))


def is_issued(found: Identity, issued: Issued = ISSUED) -> bool:
    """Our own certificate with its key, and the others behind it."""
    chain = tuple(each.public_bytes(Encoding.DER) for each in issued.certificates)
    public = found.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    own = load_der_x509_certificate(found.chain[0]).public_key()
    return found.chain == chain and public == own.public_bytes(
        Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    )


def der(*authorities: Authority) -> set[bytes]:
    return {each.certificate.public_bytes(Encoding.DER) for each in authorities}


def refused(message: str, hint: str, attempt: Callable[..., object], *arguments: object) -> None:
    with pytest.raises(SecurityUnusable) as caught:
        attempt(*arguments)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert PASSWORD not in caught.value.message + caught.value.hint
    assert caught.value.exit_code == 2


def test_pem_gives_what_is_in_it(tmp_path: Path) -> None:
    trust = write_pem(tmp_path / "trust.pem", trusted=[ROOT, OTHER])
    assert set(trusted(trust, PEM)) == der(ROOT, OTHER)
    assert is_issued(identity(write_pem(tmp_path / "client.pem", issued=ISSUED), PEM))


def test_pem_may_stand_in_the_config_on_one_line() -> None:
    one_line = " ".join(ROOT.certificate_pem.decode().split("\n"))
    assert set(trusted_certificates(TrustStore(kind=PEM, pem=one_line), b"")) == der(ROOT)
    key, chain = (" ".join(each.decode().split("\n")) for each in (ISSUED.key_pem, ISSUED.chain_pem))
    assert is_issued(identity_of(KeyStore(kind=PEM, pem_key=key, pem_chain=chain), b""))


def test_a_key_in_pem_may_be_encrypted() -> None:
    key, chain = ISSUED.key_encrypted(PASSWORD).decode(), ISSUED.chain_pem.decode()
    store = KeyStore(kind=PEM, pem_key=key, pem_chain=chain, key_password=PASSWORD)
    assert is_issued(identity_of(store, b""))


def test_a_key_in_pem_may_be_in_openssls_older_form(tmp_path: Path) -> None:
    key = rsa.generate_private_key(65537, 2048)
    old = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    path = tmp_path / "old.pem"
    path.write_bytes(old + ISSUED.chain_pem)
    assert isinstance(identity(path, PEM).key, rsa.RSAPrivateKey)


@pytest.mark.parametrize("kind", [PKCS12, JKS])
@pytest.mark.parametrize("password", [PASSWORD, ""])
def test_pkcs12_gives_what_is_in_it_also_without_a_password(
    tmp_path: Path, password: str, kind: StoreKind
) -> None:
    trust = write_pkcs12(tmp_path / "trust.p12", password, trusted=[ROOT, OTHER])
    assert set(trusted(trust, kind, password)) == der(ROOT, OTHER)
    client = write_pkcs12(tmp_path / "client.p12", password, issued=ISSUED)
    assert is_issued(identity(client, kind, password))


def test_what_else_a_pkcs12_holds_is_not_sent_as_a_chain(tmp_path: Path) -> None:
    strange = Issued(key_pem=ISSUED.key_pem, chain_pem=ISSUED.chain_pem + OTHER.certificate_pem)
    assert is_issued(
        identity(write_pkcs12(tmp_path / "client.p12", PASSWORD, issued=strange), PKCS12, PASSWORD)
    )


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_stores_that_keytool_makes_are_read(tmp_path: Path, kind: str) -> None:
    trust = write_jks(tmp_path / "trust", PASSWORD, trusted=[ROOT], kind=kind)
    client = write_jks(tmp_path / "client", PASSWORD, issued=ISSUED, kind=kind)
    for said in (JKS, PKCS12):  # Java opens either by either name
        assert set(trusted(trust, said, PASSWORD)) == der(ROOT)
        assert is_issued(identity(client, said, PASSWORD))
    refused("cannot be opened with ssl.truststore.password", "keytool -list", trusted, trust, JKS, "wrong")
    refused("cannot be opened with ssl.keystore.password", "keytool -list", identity, client, JKS, "wrong")
    refused("holds no private key", "truststore", identity, trust, JKS, PASSWORD)
    keytool("-genkeypair", "-alias", "b", "-keyalg", "EC", "-dname", "CN=b", *in_store(client, kind))
    refused("holds 2 private keys", "-srcalias ALIAS", identity, client, JKS, PASSWORD)
    if kind == "JKS":
        keytool("-keypasswd", "-alias", "b", "-new", "another", *in_store(client, kind))
        keytool("-delete", "-alias", "mirror", *in_store(client, kind))
        assert identity(client, JKS, PASSWORD, "another").chain
        words = "cannot be opened with ssl.keystore.password"
        refused(words, "set ssl.key.password", identity, client, JKS, PASSWORD)
        assert set(trusted(trust, JKS)) == der(ROOT)


def in_store(path: Path, kind: str) -> tuple[str, ...]:
    return ("-keystore", str(path), "-storetype", kind, "-storepass", PASSWORD)


def test_a_jceks_store_is_refused_with_the_line_that_converts_it(tmp_path: Path) -> None:
    path = tmp_path / "old.jceks"
    path.write_bytes(bytes.fromhex("cececece00000002"))
    line = f"keytool -importkeystore -srckeystore {path} -srcstoretype JCEKS -destkeystore {path}.p12"
    refused("is a JCEKS store", line, trusted, path, JKS)
    refused("is a JCEKS store", line, identity, path, PKCS12)


def test_what_is_not_there_or_no_file_is_told(tmp_path: Path) -> None:
    refused(f"cannot read {tmp_path}/none: No such file", "ls -l", trusted, tmp_path / "none", JKS)
    refused(f"cannot read {tmp_path}: Is a directory", "ls -l", trusted, tmp_path, JKS)
    os.mkfifo(tmp_path / "pipe")
    refused("pipe is not a file", "name a file", trusted, tmp_path / "pipe", JKS)
    refused("/dev/zero is not a file", "name a file", trusted, Path("/dev/zero"), JKS)
    refused("zero byte", "correct the path", read_store, "a\0b")


def test_a_file_that_is_too_large_for_a_store_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(LARGEST_BYTES + 1)
    refused("is larger than 8 MB", "correct the path", trusted, path, JKS)


def test_what_is_no_store_is_told_with_the_type_that_it_has(tmp_path: Path) -> None:
    pem = write_pem(tmp_path / "x.pem", trusted=[ROOT])
    refused("is neither a JKS nor a PKCS12 store", "set ssl.truststore.type: PEM", trusted, pem, JKS)
    refused("is neither a JKS nor a PKCS12 store", "set ssl.keystore.type: PEM", identity, pem, PKCS12)
    p12 = write_pkcs12(tmp_path / "x.p12", PASSWORD, trusted=[ROOT])
    refused("holds nothing in PEM", "correct ssl.truststore.type", trusted, p12, PEM)
    (tmp_path / "empty").touch()
    refused("is neither", "correct ssl.keystore.location", identity, tmp_path / "empty", JKS)


def test_a_damaged_store_is_told(tmp_path: Path) -> None:
    whole = write_pkcs12(tmp_path / "x.p12", PASSWORD, trusted=[ROOT]).read_bytes()
    path = tmp_path / "damaged"
    path.write_bytes(whole[:-1])
    refused("is damaged", "make it again", trusted, path, PKCS12, PASSWORD)
    path.write_bytes(bytes.fromhex("feedfeed0000000200000001"))
    refused("is damaged: it is cut short", "make it again", trusted, path, JKS)
    path.write_text("-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----")
    refused("a certificate in", "make it again", trusted, path, PEM)


def test_a_store_that_is_not_strictly_der_is_read_without_a_warning_of_the_library(tmp_path: Path) -> None:
    path = tmp_path / "x.p12"
    path.write_bytes(write_pkcs12(path, PASSWORD, trusted=[ROOT]).read_bytes() + b"\0")
    assert set(trusted(path, PKCS12, PASSWORD)) == der(ROOT)


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damage_anywhere_ends_in_a_store_or_in_a_problem(tmp_path: Path, data: st.DataObject) -> None:
    """Byte by byte, in a keystore of each format: nothing else is raised, whatever the libraries below make of it."""
    path = tmp_path / "client"
    kind = data.draw(st.sampled_from([PEM, PKCS12]))
    writers = {
        PEM: lambda: write_pem(path, issued=ISSUED),
        PKCS12: lambda: write_pkcs12(path, "", issued=ISSUED),
    }
    content = bytearray(writers[kind]().read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    with suppress(SecurityUnusable):
        identity(path, kind)
    with suppress(SecurityUnusable):
        trusted(path, kind)


def test_a_password_that_no_store_can_have_is_told_as_a_wrong_one(tmp_path: Path) -> None:
    trust = write_pkcs12(tmp_path / "trust.p12", PASSWORD, trusted=[ROOT])
    words = "cannot be opened with ssl.truststore.password"
    refused(words, "keytool -list", trusted, trust, PKCS12, "half a character: \ud83d")


def test_a_store_without_its_password_is_told(tmp_path: Path) -> None:
    trust = write_pkcs12(tmp_path / "x.p12", PASSWORD, trusted=[ROOT])
    refused("needs ssl.truststore.password, which is not set", "keytool -list", trusted, trust, PKCS12)


def test_a_truststore_without_a_certificate_is_told(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(ISSUED.key_pem)
    refused("holds no certificate to trust", "add the authority", trusted, path, PEM)


def pem_store(key: bytes, chain: bytes, key_password: str = "") -> tuple[KeyStore, bytes]:
    store = KeyStore(kind=PEM, pem_key=key.decode(), pem_chain=chain.decode(), key_password=key_password)
    return store, b""


def test_what_is_wrong_with_a_key_in_pem_is_told() -> None:
    sealed, chain = ISSUED.key_encrypted(PASSWORD), ISSUED.chain_pem
    name = "the private key in ssl.keystore.key"
    refused(f"{name} is encrypted", "set ssl.key.password", identity_of, *pem_store(sealed, chain))
    wrong = pem_store(sealed, chain, "wrong")
    refused(f"{name} cannot be opened with ssl.key.password", "openssl pkey", identity_of, *wrong)
    needless = pem_store(ISSUED.key_pem, chain, PASSWORD)
    refused(f"and {name} is not encrypted", "remove ssl.key.password", identity_of, *needless)
    refused("holds no private key", "truststore", identity_of, *pem_store(b"", chain))
    refused("holds 2 private keys", "keep one", identity_of, *pem_store(ISSUED.key_pem * 2, chain))
    refused("and no certificate for it", "add the certificate", identity_of, *pem_store(ISSUED.key_pem, b""))
    garbage = b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
    refused(f"{name} is damaged", "export the key again", identity_of, *pem_store(garbage, chain))


def test_no_key_is_in_a_repr() -> None:
    assert "key=" not in repr(identity_of(*pem_store(ISSUED.key_pem, ISSUED.chain_pem)))
