"""Authorities, certificates and the stores that hold them, made for a test.

    authority = Authority.make("sf")
    server = authority.issue(["localhost", "127.0.0.1"])
    client = authority.issue(["mirror"], client=True)
    write_pem(tmp_path / "client.pem", issued=client)
    write_pkcs12(tmp_path / "trust.p12", "changeit", trusted=[authority])
    write_jks(tmp_path / "client.jks", "changeit", issued=client)      # by keytool: half a second each

An identity is one key with its chain; a truststore holds authorities. All keys are P-256: quickly made.
"""

from __future__ import annotations

import ipaddress
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from heliograph.lab.java import find_java

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """A certificate with its private key. `chain_pem`: the certificate itself, then those between it and the root."""

    key_pem: bytes
    chain_pem: bytes

    @property
    def certificates(self) -> list[x509.Certificate]:
        return x509.load_pem_x509_certificates(self.chain_pem)

    def key_encrypted(self, password: str) -> bytes:
        """The key in PEM, encrypted PKCS8: what ssl.key.password opens."""
        key = load_pem_private_key(self.key_pem, None)
        return key.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode())
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    key: EllipticCurvePrivateKey
    certificate: x509.Certificate
    between: tuple[
        x509.Certificate, ...
    ] = ()  # of a subordinate: its own certificate, then up to below the root

    @classmethod
    def make(cls, name: str) -> Authority:
        key = generate_private_key(SECP256R1())
        subject = _name(name)
        builder = _builder(subject, subject, key).add_extension(
            x509.BasicConstraints(True, None), critical=True
        )
        builder = builder.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
        )
        return cls(key=key, certificate=builder.sign(key, SHA256()))

    def subordinate(self, name: str) -> Authority:
        """An authority that this one has signed; what it issues has both in its chain but the root."""
        key = generate_private_key(SECP256R1())
        builder = _builder(_name(name), self.certificate.subject, key)
        builder = builder.add_extension(x509.BasicConstraints(True, None), critical=True)
        builder = builder.add_extension(self._signed_by(), critical=False)
        builder = builder.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
        )
        certificate = builder.sign(self.key, SHA256())
        return Authority(key=key, certificate=certificate, between=(certificate, *self.between))

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    def issue(self, names: Sequence[str], *, expired: bool = False, client: bool = False) -> Issued:
        """For these host names and addresses; the first is the common name, too. `client`: good for a client only."""
        key = generate_private_key(SECP256R1())
        ended = datetime.now(UTC) - _DAY if expired else None
        builder = _builder(_name(names[0]), self.certificate.subject, key, ended)
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH] if client else _BOTH_ENDS
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False
        )
        builder = builder.add_extension(x509.BasicConstraints(False, None), critical=True)
        builder = builder.add_extension(self._signed_by(), critical=False)
        certificate = builder.sign(self.key, SHA256())
        chain = (certificate, *self.between)
        return Issued(
            key_pem=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
            chain_pem=b"".join(each.public_bytes(Encoding.PEM) for each in chain),
        )

    def _signed_by(self) -> x509.AuthorityKeyIdentifier:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())


def write_pem(path: Path, *, issued: Issued | None = None, trusted: Sequence[Authority] = ()) -> Path:
    """As Kafka's PEM stores are: an identity is its key and then its chain."""
    identity = [issued.key_pem, issued.chain_pem] if issued else []
    path.write_bytes(b"".join([*identity, *(each.certificate_pem for each in trusted)]))
    return path


def write_pkcs12(
    path: Path, password: str, *, issued: Issued | None = None, trusted: Sequence[Authority] = ()
) -> Path:
    """An identity, or else a truststore that Java takes for one. An empty password: not encrypted."""
    encryption: KeySerializationEncryption = NoEncryption()
    if password:
        encryption = BestAvailableEncryption(password.encode())
    if issued:
        own, *others = issued.certificates
        key = load_pem_private_key(issued.key_pem, None)
        assert isinstance(key, EllipticCurvePrivateKey)
        data = pkcs12.serialize_key_and_certificates(b"mirror", key, own, others, encryption)
    else:
        entries = [pkcs12.PKCS12Certificate(each.certificate, b"ca") for each in trusted]
        data = pkcs12.serialize_java_truststore(entries, encryption)
    path.write_bytes(data)
    return path


def write_jks(
    path: Path,
    password: str,
    *,
    issued: Issued | None = None,
    trusted: Sequence[Authority] = (),
    kind: str = "JKS",
) -> Path:
    """By Java's own keytool; `kind` may be PKCS12 or JCEKS as well."""
    store = ["-keystore", str(path), "-storetype", kind, "-storepass", password]
    if issued:
        source = write_pkcs12(path.with_suffix(".made"), password, issued=issued)
        into = ["-destkeystore", str(path), "-deststoretype", kind, "-deststorepass", password]
        keytool("-importkeystore", "-srckeystore", str(source), "-srcstorepass", password, *into)
        source.unlink()
    for number, authority in enumerate(trusted):
        made = write_pem(path.with_suffix(".made"), trusted=[authority])
        keytool("-importcert", "-noprompt", "-alias", f"ca{number}", "-file", str(made), *store)
        made.unlink()
    return path


def keytool(*arguments: str) -> None:
    """It is slow: half a second and more each."""
    program = Path(find_java()) / "bin" / "keytool"
    found = str(program) if program.exists() else shutil.which("keytool")
    assert found, "no keytool beside Java, nor on the path"
    subprocess.run([found, *arguments], check=True, capture_output=True)


_BOTH_ENDS = [
    ExtendedKeyUsageOID.SERVER_AUTH,
    ExtendedKeyUsageOID.CLIENT_AUTH,
]  # brokers call each other, too


def _builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, ended: datetime | None = None
) -> x509.CertificateBuilder:
    until = ended or datetime.now(UTC) + 30 * _DAY
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(until - 60 * _DAY)
        .not_valid_after(until)
    )


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
