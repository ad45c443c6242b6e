"""Stores in PEM, files or texts: certificates that are trusted, or a private key and its certificates."""

from __future__ import annotations

from collections.abc import Iterable

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from heliograph.cluster.security.identity import Identity
from heliograph.cluster.security.pem import PemBlock, pem_blocks
from heliograph.cluster.security.settings import KeyStore, TrustStore
from heliograph.cluster.security.store_problems import (
    KEY_STORE,
    TRUST_STORE,
    check_one_key,
    damaged,
    damaged_key,
    no_certificate,
)
from heliograph.model.errors import SecurityUnusable


def pem_certificates(store: TrustStore, data: bytes) -> tuple[bytes, ...]:
    name = store.location or f"{TRUST_STORE}.certificates"
    return _certificates(_blocks(name, store.pem or _text(data), TRUST_STORE), name, TRUST_STORE)


def pem_identity(store: KeyStore, data: bytes) -> Identity:
    name = store.location or f"{KEY_STORE}.key"
    blocks = _blocks(name, store.pem_key + store.pem_chain or _text(data), KEY_STORE)
    keys = [each for each in blocks if each.is_private_key]
    check_one_key(name, len(keys))
    chain = _certificates(blocks, name, KEY_STORE)
    if not chain:
        raise no_certificate(name)
    return Identity(key=_opened(keys[0], name, store.key_password), chain=chain)


def _text(data: bytes) -> str:
    """What is between blocks may be in any encoding."""
    return data.decode("ascii", "replace")


def _blocks(name: str, text: str, store: str) -> list[PemBlock]:
    blocks = pem_blocks(text)
    if not blocks:
        hint = f"correct {store}.type, if it is a JKS or PKCS12 store; or export it again as PEM"
        raise SecurityUnusable(f"{name} holds nothing in PEM (-----BEGIN ...)", hint=hint)
    return blocks


def _certificates(blocks: Iterable[PemBlock], name: str, store: str) -> tuple[bytes, ...]:
    try:
        return tuple(each.der() for each in blocks if each.is_certificate)
    except ValueError as problem:
        raise damaged(f"a certificate in {name}", store, str(problem)) from None


def _opened(block: PemBlock, name: str, password: str) -> PrivateKeyTypes:
    if block.is_encrypted and not password:
        raise SecurityUnusable(f"the private key in {name} is encrypted", hint="set ssl.key.password")
    if password and not block.is_encrypted:
        raise SecurityUnusable(
            f"ssl.key.password is set, and the private key in {name} is not encrypted",
            hint="remove ssl.key.password, or encrypt the key: openssl pkcs8 -topk8 -in KEY -out NEW",
        )
    try:
        return load_pem_private_key(block.text().encode(), password.encode() or None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        if not block.is_encrypted:
            raise damaged_key(name) from None
        raise SecurityUnusable(
            f"the private key in {name} cannot be opened with ssl.key.password",
            hint="find the right password: openssl pkey -noout -in KEY; then set ssl.key.password",
        ) from None
