"""Who we are, proven to a broker by SASL over a line of its own.

Owns the order of the requests and what each refusal means. Must not know when it is to be done, nor how often
(attempts.py, cluster_locks.py).
"""

from __future__ import annotations

from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from heliograph.cluster.line import Line
from heliograph.cluster.messages import call, common_version
from heliograph.cluster.security.mechanisms import SaslExchange
from heliograph.cluster.security.sasl_threads import reply
from heliograph.cluster.security.settings import SaslMechanism
from heliograph.model.errors import BrokerRefused, SecurityFailed
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.error_codes import ErrorCode

MOST_ROUNDS = 10  # Kerberos takes three
MOST_TOLD = 300  # characters of what a broker says
BROKERS_LOG = "see the broker's log"
_BEFORE_FRAMES = "SASL needs brokers of Kafka 1.0 or later"


async def authenticate(line: Line, exchange: SaslExchange, first: bytes, timeout_ms: int) -> int:
    """For how many milliseconds the broker accepts it; 0: for ever. `SecurityFailed` if it does not. `first`: what the
    exchange says first. It is asked for before others are kept off the line: a KDC may take its time. Behind `agree`.
    """
    try:
        return await _exchange(line, exchange, first, timeout_ms)
    except SecurityFailed as problem:
        raise type(problem)(f"{line.address}: {problem.message}", hint=problem.hint) from problem


async def _exchange(line: Line, exchange: SaslExchange, first: bytes, timeout_ms: int) -> int:
    words: bytes | None = first
    for _ in range(MOST_ROUNDS):
        request = SaslAuthenticateRequest(auth_bytes=words)
        answer = await call(line, request, SaslAuthenticateResponse, timeout_ms=timeout_ms)
        if answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED:
            raise exchange.refused(_quoted(answer.error_message or "authentication failed"))
        if answer.error_code:
            raise SecurityFailed(
                f"SaslAuthenticate: {ErrorCode.name_of(answer.error_code)}", hint=BROKERS_LOG
            )
        lasts_ms = int(getattr(answer, "session_lifetime_ms", None) or 0)
        words = await reply(exchange, bytes(answer.auth_bytes))
        if words is None:
            return lasts_ms
    raise SecurityFailed(f"SASL has not ended after {MOST_ROUNDS} rounds", hint=BROKERS_LOG)


async def agree(line: Line, mechanism: SaslMechanism, timeout_ms: int) -> None:
    """The mechanism is told, and taken. Nothing secret is said."""
    try:
        # Version 0 is followed by tokens without Kafka's frame.
        common_version(line, ApiKey.SASL_HANDSHAKE, "SaslHandshake", range(1, 2))
    except BrokerRefused as problem:
        raise SecurityFailed(f"{line.address}: {_BEFORE_FRAMES}", hint=problem.hint) from problem
    request = SaslHandshakeRequest(mechanism=mechanism.value)
    answer = await call(line, request, SaslHandshakeResponse, timeout_ms=timeout_ms)
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = _quoted(", ".join(map(str, answer.mechanisms or ()))) or "none"
        raise SecurityFailed(
            f"{line.address} does not take {mechanism.value}; it offers {offered}",
            hint=f"set sasl.mechanism to one of {offered}",
        )
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise SecurityFailed(
            f"{line.address} is a listener without SASL",
            hint="set security.protocol to SSL or PLAINTEXT, or name the port of a listener with SASL",
        )
    if answer.error_code:
        code = ErrorCode.name_of(answer.error_code)
        raise SecurityFailed(f"{line.address} SaslHandshake: {code}", hint=BROKERS_LOG)


def _quoted(told: str) -> str:
    """As much of a stranger's words as a line of a log can bear, and nothing that a terminal would obey."""
    return "".join(each if each.isprintable() else "?" for each in told[:MOST_TOLD])
