"""Stores in JKS: certificates that are trusted, or a private key and its certificates."""

from __future__ import annotations

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_der_private_key

from heliograph.cluster.security.identity import Identity
from heliograph.cluster.security.jks import BadStore, JksStore, KeyEntry, WrongPassword, open_key, read_jks
from heliograph.cluster.security.settings import KeyStore, TrustStore
from heliograph.cluster.security.store_problems import (
    KEY_STORE,
    TRUST_STORE,
    check_one_key,
    damaged,
    damaged_key,
    no_certificate,
    wrong_password,
)
from heliograph.model.errors import SecurityUnusable


def jks_certificates(store: TrustStore, data: bytes) -> tuple[bytes, ...]:
    """Those that are there to be trusted and, as in Java, the own one of each key."""
    read = _read(data, store.location, store.password, TRUST_STORE)
    return (*read.trusted, *(each.chain[0] for each in read.keys if each.chain))


def jks_identity(store: KeyStore, data: bytes) -> Identity:
    read = _read(data, store.location, store.password, KEY_STORE)
    check_one_key(store.location, len(read.keys))
    entry = read.keys[0]
    if not entry.chain:
        raise no_certificate(store.location)
    try:
        return Identity(key=load_der_private_key(_opened(entry, store), None), chain=entry.chain)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise damaged_key(store.location) from None


def _read(data: bytes, location: str, password: str, store: str) -> JksStore:
    try:
        return read_jks(data, password)
    except WrongPassword:
        raise wrong_password(location, password, store) from None
    except BadStore as problem:
        raise damaged(location, store, str(problem)) from None


def _opened(entry: KeyEntry, store: KeyStore) -> bytes:
    try:
        return open_key(entry, store.key_password or store.password)
    except WrongPassword:
        tried = "ssl.key.password" if store.key_password else f"{KEY_STORE}.password"
        raise SecurityUnusable(
            f"the private key in {store.location} cannot be opened with {tried}",
            hint="set ssl.key.password to the password of the key itself",
        ) from None
    except BadStore as problem:
        raise damaged(store.location, KEY_STORE, str(problem)) from None
