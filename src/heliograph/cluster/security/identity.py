"""Who we are in TLS: a private key and the certificates that belong to it."""

from __future__ import annotations

import os
import secrets
import ssl
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """`chain` in DER, our own certificate first, then each that signed the one before."""

    key: PrivateKeyTypes = field(repr=False)
    chain: tuple[bytes, ...]

    def show_in(self, context: ssl.SSLContext) -> None:
        """Let the context prove that it is us. Python's ssl reads a key from a path only: this one leads into memory,
        and what is there is encrypted. `ssl.SSLError` if the chain cannot be used, or is not the key's."""
        password = secrets.token_bytes(32).hex()
        key = self.key.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode())
        )
        chain = "".join(ssl.DER_cert_to_PEM_cert(each) for each in self.chain)
        with open(os.memfd_create("heliograph-key", os.MFD_CLOEXEC), "wb", buffering=0) as memory:
            memory.write(key + chain.encode())
            context.load_cert_chain(f"/proc/self/fd/{memory.fileno()}", password=password)
