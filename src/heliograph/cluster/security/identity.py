"""Who we are in TLS: a private key and the certificates that belong to it."""

from __future__ import annotations

from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """`chain` in DER, our own certificate first, then each that signed the one before."""

    key: PrivateKeyTypes = field(repr=False)
    chain: tuple[bytes, ...]
