"""Keystores and truststores: what is in one becomes certificates to trust, or a private key with its certificates.

Owns which format a store has. As in Java one that is said to be JKS or PKCS12 may be either. Must not read files
(store_files.py).
"""

from __future__ import annotations

from heliograph.cluster.security import jks
from heliograph.cluster.security.identity import Identity
from heliograph.cluster.security.jks_stores import jks_certificates, jks_identity
from heliograph.cluster.security.pem_stores import pem_certificates, pem_identity
from heliograph.cluster.security.pkcs12_stores import pkcs12_certificates, pkcs12_identity
from heliograph.cluster.security.settings import KeyStore, StoreKind, TrustStore
from heliograph.cluster.security.store_problems import KEY_STORE, TRUST_STORE, convert_line
from heliograph.model.errors import SecurityUnusable

_JCEKS_MAGIC = bytes.fromhex("cececece")
_DER_SEQUENCE = b"\x30"  # how PKCS12 begins
_PEM_BEGIN = b"-----BEGIN "


def trusted_certificates(store: TrustStore, data: bytes) -> tuple[bytes, ...]:
    """In DER, at least one. `data`: what is in the file, if the store is one. SecurityUnusable says what is wrong."""
    readers = {
        StoreKind.PEM: pem_certificates,
        StoreKind.JKS: jks_certificates,
        StoreKind.PKCS12: pkcs12_certificates,
    }
    found = readers[_format(store.kind, store.location, data, TRUST_STORE)](store, data)
    if not found:
        name = store.location or f"{TRUST_STORE}.certificates"
        hint = f"add the authority that signs the brokers' certificates to it, or correct {TRUST_STORE}.*"
        raise SecurityUnusable(f"{name} holds no certificate to trust", hint=hint)
    return found


def identity_of(store: KeyStore, data: bytes) -> Identity:
    """`data`: what is in the file, if the store is one. SecurityUnusable says what is wrong."""
    readers = {
        StoreKind.PEM: pem_identity,
        StoreKind.JKS: jks_identity,
        StoreKind.PKCS12: pkcs12_identity,
    }
    return readers[_format(store.kind, store.location, data, KEY_STORE)](store, data)


def _format(kind: StoreKind, location: str, data: bytes, store: str) -> StoreKind:
    """Of what is there, where Java would open it, too."""
    if kind is StoreKind.PEM:
        return kind
    if data[:4] == jks.MAGIC:
        return StoreKind.JKS
    if data[:1] == _DER_SEQUENCE:
        return StoreKind.PKCS12
    if data[:4] == _JCEKS_MAGIC:
        hint = convert_line(location, "JCEKS")
        raise SecurityUnusable(f"{location} is a JCEKS store, which cannot be read", hint=hint)
    hint = f"set {store}.type: PEM" if _PEM_BEGIN in data else f"correct {store}.location"
    raise SecurityUnusable(f"{location} is neither a JKS nor a PKCS12 store", hint=hint)
