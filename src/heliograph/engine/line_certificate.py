"""The driver's certificate on the control line: made for one run, known to lanes by the fingerprint in their tickets.

Its private key is in this process and on no disk. Lanes must not import this file: they need none of `cryptography`,
which takes 65 ms to load.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from heliograph.cluster.security.identity import Identity
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
    shown = certificate.public_bytes(Encoding.DER)
    Identity(key=key, chain=(shown,)).show_in(context)
    return LineCertificate(context=context, fingerprint=fingerprint_of(shown))


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
