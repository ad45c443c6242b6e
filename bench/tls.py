"""TLS between mirrors and clusters: a listener that speaks TLS 1.3 alone, and what a mirror needs to come in by it.

Owns the certificate, which is made for the run and good for both clusters. Must not know any mirror: what it is given
has Kafka's own names. The harness itself goes on in plain text.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from heliograph.lab.cluster import LabCluster
from heliograph.lab.listeners import Listener, Tls
from tests.support.certificates import Authority, write_pem

LISTENER = "TLS"
HOST = "localhost"
ONLY_1_3 = {"ssl.enabled.protocols": "TLSv1.3"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Of the brokers (`keystore`), and of who trusts them."""

    keystore: Path
    truststore: Path

    @property
    def listener(self) -> Listener:
        return Listener(name=LISTENER, host=HOST, tls=Tls(keystore=self.keystore), properties=ONLY_1_3)

    def client_properties(self, lab: LabCluster) -> dict[str, str]:
        """Of a client that comes in by the listener."""
        return {
            "bootstrap.servers": lab.servers(LISTENER),
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.truststore),
            **ONLY_1_3,
        }


@contextmanager
def tls_files() -> Iterator[TlsFiles]:
    authority = Authority.make("benchmark")
    with TemporaryDirectory(prefix="heliograph-bench-tls-") as name:
        directory = Path(name)
        yield TlsFiles(
            keystore=write_pem(directory / "brokers.pem", issued=authority.issue([HOST])),
            truststore=write_pem(directory / "trust.pem", trusted=[authority]),
        )
