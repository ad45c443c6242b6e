"""Whether what proves who we are has changed: one value of all secrets, and of all that is in the files they come from.

A broker that has refused us will do so again until then. Reads files; tells no secret.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import astuple

from heliograph.cluster.security.settings import KerberosSettings, Security
from heliograph.cluster.security.store_files import read_store
from heliograph.model.errors import SecurityUnusable

_KEY = os.urandom(32)  # of this process: nobody can try passwords on a fingerprint that has got out


def fingerprint(security: Security) -> str:
    """Equal as long as nothing has changed. Only fingerprints of one process can be compared."""
    digest = hashlib.blake2b(repr(astuple(security)).encode("utf-8", "surrogatepass"), key=_KEY)
    for location in _files(security):
        try:
            content = read_store(location)
        except SecurityUnusable as problem:
            content = problem.message.encode(
                "utf-8", "surrogatepass"
            )  # one that comes later has changed, too
        digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()


def _files(security: Security) -> Iterator[str]:
    if security.tls is not None:
        stores = (security.tls.trust, security.tls.identity)
        yield from (each.location for each in stores if each is not None and each.location)
    if security.sasl is not None and security.sasl.kerberos is not None:
        yield _credentials(security.sasl.kerberos)


def _credentials(kerberos: KerberosSettings) -> str:
    """The keytab, or the ticket cache where it is a file; what is none is told as a file that cannot be read."""
    if kerberos.ticket_cache is None:
        return kerberos.keytab
    default = os.environ.get("KRB5CCNAME", f"/tmp/krb5cc_{os.getuid()}")
    return (kerberos.ticket_cache or default).removeprefix("FILE:")
