"""The driver's certificate on the control line: made for one run, known to lanes by the fingerprint in their tickets.

Its private key is in this process and on no disk. Lanes must not import this file: they need none of `cryptography`,
which takes 65 ms to load.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from heliograph.engine.line_tls import fingerprint_of

# Nobody looks at them: a lane compares the fingerprint, and the certificate ends with the run.
VALID_SINCE, VALID_FOR = timedelta(days=1), timedelta(days=3650)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCertificate:
    """`context`: what the driver's end of every line is made of; it holds the private key."""

    context: ssl.SSLContext = field(repr=False)
    fingerprint: bytes


def new_certificate() -> LineCertificate:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _self_signed(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # no session is ever resumed: a lane that comes again is another process
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    _load(context, private + certificate.public_bytes(Encoding.PEM))
    fingerprint = fingerprint_of(certificate.public_bytes(Encoding.DER))
    return LineCertificate(context=context, fingerprint=fingerprint)


def _self_signed(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "heliograph")]), datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - VALID_SINCE)
        .not_valid_after(now + VALID_FOR)
        .sign(key, SHA256())
    )


def _load(context: ssl.SSLContext, pem: bytes) -> None:
    """Python's ssl reads a private key from a path only; this one leads into memory, which goes when it is closed."""
    with open(os.memfd_create("heliograph-line", os.MFD_CLOEXEC), "wb", buffering=0) as memory:
        memory.write(pem)
        context.load_cert_chain(f"/proc/self/fd/{memory.fileno()}")
