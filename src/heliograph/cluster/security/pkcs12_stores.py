"""Stores in PKCS12: certificates that are trusted, or a private key and its certificates."""

from __future__ import annotations

import warnings

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

from heliograph.cluster.security.identity import Identity
from heliograph.cluster.security.settings import KeyStore, TrustStore
from heliograph.cluster.security.store_problems import (
    KEY_STORE,
    TRUST_STORE,
    check_one_key,
    convert_line,
    damaged,
    no_certificate,
    wrong_password,
)
from heliograph.model.errors import SecurityUnusable

# The object identifier of an encrypted key, in DER. Keys are encrypted one by one, in a part of the store that is not:
# they can be counted. cryptography takes the first, and does not say that there are others.
_ENCRYPTED_KEY = bytes.fromhex("060b2a864886f70d010c0a0102")


def pkcs12_certificates(store: TrustStore, data: bytes) -> tuple[bytes, ...]:
    """All that are in it: which of them Java marks as trusted does not show, and other tools mark none."""
    read = _read(data, store.location, store.password, TRUST_STORE)
    entries = [each for each in (read.cert, *read.additional_certs) if each is not None]
    return tuple(each.certificate.public_bytes(Encoding.DER) for each in entries)


def pkcs12_identity(store: KeyStore, data: bytes) -> Identity:
    read = _read(data, store.location, store.password, KEY_STORE)
    check_one_key(store.location, 0 if read.key is None else max(data.count(_ENCRYPTED_KEY), 1))
    assert read.key is not None
    if read.cert is None:
        raise no_certificate(store.location)
    chain = _chain(read.cert.certificate, [each.certificate for each in read.additional_certs])
    return Identity(key=read.key, chain=tuple(each.public_bytes(Encoding.DER) for each in chain))


def _read(data: bytes, location: str, password: str, store: str) -> pkcs12.PKCS12KeyAndCertificates:
    try:
        encoded = password.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, out of a properties file or of the environment
        raise wrong_password(location, password, store) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of stores in BER instead of DER, which are read all the same
            return pkcs12.load_pkcs12(data, encoded or None)
    except UnsupportedAlgorithm:
        words = f"{location} is encrypted in a way that OpenSSL does not have here"
        raise SecurityUnusable(words, hint=convert_line(location, "PKCS12")) from None
    except (ValueError, TypeError) as problem:
        if "password" in str(problem).lower():  # of a store whose structure is whole
            raise wrong_password(location, password, store) from None
        raise damaged(location, store) from None


def _chain(own: x509.Certificate, others: list[x509.Certificate]) -> list[x509.Certificate]:
    """From the own certificate up, each signed by the next: a store keeps no order."""
    chain = [own]
    by_subject = {each.subject: each for each in others}
    while (issuer := by_subject.pop(chain[-1].issuer, None)) is not None:
        chain.append(issuer)
    return chain
