"""Java's own keystore format, JKS: bytes to certificates and private keys.

Owns the layout of version 2 and Sun's protection of keys in it. Trusts no byte: every length is checked against what is
there. Must not know files, nor what a store is for (jks_stores.py).

    FEEDFEED 00000002, number of entries, then each entry:
      1  alias, time, protected key (length before it), number of certificates, each its type and its DER
      2  alias, time, one certificate, its type and its DER
    and at the end SHA-1 of password + "Mighty Aphrodite" + all before it
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

MAGIC = bytes.fromhex("feedfeed")
_VERSION_2 = (2).to_bytes(4, "big")
_PHRASE = b"Mighty Aphrodite"
_DIGEST_BYTES = 20  # SHA-1
_TIME_BYTES = 8
_KEY_ENTRY, _CERTIFICATE_ENTRY = 1, 2
_SUN_PROTECTION = bytes.fromhex(
    "060a2b060104012a02110101"
)  # the object identifier 1.3.6.1.4.1.42.2.17.1.1 in DER


class BadStore(ValueError):
    """It is damaged, or no store of this format."""


class WrongPassword(BadStore):
    """The password does not fit, or what it protects is damaged: nobody can tell which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyEntry:
    """A private key as it is protected, and its certificates in DER, its own first."""

    alias: str
    protected: bytes = field(repr=False)
    chain: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JksStore:
    keys: tuple[KeyEntry, ...]
    trusted: tuple[bytes, ...]  # certificates, in DER


def read_jks(data: bytes, password: str) -> JksStore:
    """Without a password the store is not checked, as in Java."""
    if data[:4] != MAGIC or data[4:8] != _VERSION_2:
        raise BadStore("it is no JKS store of version 2")
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password and not hmac.compare_digest(_sha1(_utf16(password) + _PHRASE + body), digest):
        raise WrongPassword("the password is wrong, or the store is damaged")
    rest = _Bytes(body[8:])
    keys, trusted = [], []
    for _ in range(rest.number(4)):
        kind, alias, _time = rest.number(4), rest.text(), rest.take(_TIME_BYTES)
        if kind == _KEY_ENTRY:
            protected = rest.take(rest.number(4))
            chain = tuple(rest.certificate() for _ in range(rest.number(4)))
            keys.append(KeyEntry(alias=alias, protected=protected, chain=chain))
        elif kind == _CERTIFICATE_ENTRY:
            trusted.append(rest.certificate())
        else:
            raise BadStore("it has an entry that is neither a key nor a certificate")
    if rest.left:
        raise BadStore("there are bytes after its last entry")
    return JksStore(keys=tuple(keys), trusted=tuple(trusted))


def open_key(entry: KeyEntry, password: str) -> bytes:
    """The private key as PKCS8, in DER. It is hidden by a stream of chained SHA-1 digests."""
    outer = _Bytes(_Bytes(entry.protected).der())
    if not outer.der().startswith(_SUN_PROTECTION):
        raise BadStore("its key is not encrypted by JKS's own method")
    sealed, secret = outer.der(), _utf16(password)
    link, hidden, check = (
        sealed[:_DIGEST_BYTES],
        sealed[_DIGEST_BYTES:-_DIGEST_BYTES],
        sealed[-_DIGEST_BYTES:],
    )
    stream = bytearray()
    while len(stream) < len(hidden):
        link = _sha1(secret + link)
        stream += link
    key = bytes(a ^ b for a, b in zip(hidden, stream, strict=False))
    if not hmac.compare_digest(_sha1(secret + key), check):
        raise WrongPassword("the key's password is wrong, or the key is damaged")
    return key


class _Bytes:
    """What is left to read."""

    def __init__(self, data: bytes) -> None:
        self.left = memoryview(data)

    def take(self, count: int) -> bytes:
        if count > len(self.left):
            raise BadStore("it is cut short")
        taken, self.left = self.left[:count], self.left[count:]
        return bytes(taken)

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def text(self) -> str:
        return self.take(self.number(2)).decode("utf-8", "replace")

    def certificate(self) -> bytes:
        self.text()  # its type, always X.509
        return self.take(self.number(4))

    def der(self) -> bytes:
        """The content of one value in DER, whatever its type."""
        _, length = self.take(1), self.number(1)
        if length & 0x80:
            length = self.number(length & 0x7F)
        return self.take(length)


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be", "surrogatepass")


def _sha1(data: bytes) -> bytes:
    return hashlib.sha1(data, usedforsecurity=False).digest()  # the format's, not our choice
