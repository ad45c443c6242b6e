"""What works and protects less than it seems to: said as warnings, never refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from heliograph.cluster.security.settings import SaslMechanism, Security


class Weakness(NamedTuple):
    message: str
    hint: str


def weaknesses_of(security: Security) -> Iterator[Weakness]:
    if security.tls is not None and not security.tls.checks_host:
        yield Weakness(
            "ssl.endpoint.identification.algorithm is empty: whoever has a certificate of a trusted authority can pose"
            " as a broker",
            hint="ssl.endpoint.identification.algorithm: https; and certificates that name the brokers' hosts",
        )
    plain = security.sasl is not None and security.sasl.mechanism is SaslMechanism.PLAIN
    if plain and not security.protocol.encrypts:
        yield Weakness(
            f"sasl.mechanism=PLAIN with security.protocol={security.protocol} sends the password in the clear",
            hint="security.protocol: SASL_SSL; or sasl.mechanism: SCRAM-SHA-512",
        )
