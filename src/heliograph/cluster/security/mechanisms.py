"""What we say in SASL: one object for one authentication, without I/O.

Owns PLAIN and SCRAM; Kerberos is kerberos.py's. SCRAM is kafka-python's, with what that leaves out: names are escaped,
and a broker that asks for a weak or an endless hash is refused. Objects may take long (hashes, a KDC): they are called
in a thread. Must not know connections.
"""

from __future__ import annotations

import binascii
import re
from typing import Protocol

from kafka.net.sasl.scram import ScramClient

from heliograph.cluster.security.kerberos import KerberosExchange
from heliograph.cluster.security.settings import SaslMechanism, SaslSettings
from heliograph.model.errors import AuthenticationFailed, SecurityFailed

# RFC 7677 asks for 4096 at least; with fewer, who plays the broker learns enough to try passwords quickly.
LEAST_ITERATIONS = 4096
MOST_ITERATIONS = 1_000_000  # half a second; Kafka allows 16,384
# All that a broker may say first: nonce, salt, iterations, each once. RFC 5802 allows extensions behind them, which no
# broker sends; one with the name of another value would be taken for it by the library, and not by us.
_SERVER_FIRST = re.compile(rb"r=[\x21-\x2b\x2d-\x7e]+,s=[0-9A-Za-z+/]+={0,2},i=([1-9][0-9]{0,11})")


class SaslExchange(Protocol):
    def first(self) -> bytes:
        """What the broker is told first."""
        ...

    def next(self, challenge: bytes) -> bytes | None:
        """The answer to what the broker said; None: there is none, and the broker has proven what it has to.
        `SecurityFailed` if it has not."""
        ...

    def refused(self, words: str) -> SecurityFailed:
        """What it means that the broker refuses us, in these words; nothing more is said."""
        ...

    def late(self, limit_s: float) -> SecurityFailed:
        """What it means that one of these has not returned in so long. It may still be under way."""
        ...


def exchange_for(sasl: SaslSettings, host: str) -> SaslExchange:
    """`host`: of the broker, as it is addressed."""
    if sasl.kerberos is not None:
        return KerberosExchange(sasl.kerberos, host)
    if sasl.mechanism is SaslMechanism.PLAIN:
        return _Plain(sasl)
    return _Scram(sasl)


class _Password:
    """A name and a password: accounts are locked after too many wrong ones."""

    def __init__(self, sasl: SaslSettings) -> None:
        self._sasl = sasl

    def refused(self, words: str) -> SecurityFailed:
        if self._sasl.password in words:
            words = "the broker does not say why"
        return AuthenticationFailed(
            f"{self._sasl.mechanism.value} as {self._sasl.username!r} is refused: {words}",
            hint="check the user name and the password in sasl.jaas.config, and that the cluster knows the user",
        )

    def late(self, limit_s: float) -> SecurityFailed:
        return SecurityFailed(
            f"{self._sasl.mechanism.value} as {self._sasl.username!r} was not computed in {limit_s:.0f} s",
            hint="look at the load of this machine",
        )


class _Plain(_Password):
    def first(self) -> bytes:
        return f"\0{self._sasl.username}\0{self._sasl.password}".encode()

    def next(self, challenge: bytes) -> bytes | None:
        if challenge:
            raise SecurityFailed(
                "the broker answers PLAIN with a challenge, and PLAIN has none", hint="see the broker's log"
            )
        return None


class _Scram(_Password):
    def __init__(self, sasl: SaslSettings) -> None:
        super().__init__(sasl)
        # The library puts the name into the message as it is.
        name = sasl.username.replace("=", "=3D").replace(",", "=2C")
        self._client = ScramClient(name, sasl.password, sasl.mechanism.value)
        self._is_proven = False

    def first(self) -> bytes:
        return bytes(self._client.first_message())

    def next(self, challenge: bytes) -> bytes | None:
        try:
            if self._is_proven:
                self._client.process_server_final_message(challenge)
                return None
            _check_iterations(challenge)
            self._client.process_server_first_message(challenge)
            self._is_proven = True
            return bytes(self._client.final_message())
        except (ValueError, KeyError, binascii.Error):
            # Not the library's words: they may hold what was said.
            raise SecurityFailed(
                "the broker could not prove by SCRAM that it knows the password's hash",
                hint="is this the right cluster? see the broker's log",
            ) from None


def _check_iterations(challenge: bytes) -> None:
    found = _SERVER_FIRST.fullmatch(challenge)
    if found is None:
        raise SecurityFailed(
            "the broker does not begin SCRAM with a nonce, a salt and a number of iterations, and nothing else",
            hint="is this the right cluster? see the broker's log",
        )
    asked = int(found[1])
    if not LEAST_ITERATIONS <= asked <= MOST_ITERATIONS:
        raise SecurityFailed(
            f"the broker asks for {asked} iterations of SCRAM's hash, not for {LEAST_ITERATIONS} to {MOST_ITERATIONS}",
            hint="set the user's password again on the cluster, with iterations=8192 for example",
        )
