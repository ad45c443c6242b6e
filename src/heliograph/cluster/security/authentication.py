"""Who we are, proven to a broker by SASL over a line of its own.

Owns the order of the requests and what each refusal means. Must not know when it is to be done, nor how often
(attempts.py, cluster_locks.py).
"""

from __future__ import annotations

import asyncio

from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from heliograph.cluster.connection import Line
from heliograph.cluster.messages import call, common_version
from heliograph.cluster.security.mechanisms import SaslExchange
from heliograph.cluster.security.settings import SaslMechanism, SaslSettings
from heliograph.model.errors import AuthenticationFailed, BrokerRefused, SecurityFailed
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.error_codes import ErrorCode

MOST_ROUNDS = 10  # Kerberos takes three
MOST_TOLD = 300  # characters of what a broker says
_BEFORE_FRAMES = "SASL needs brokers of Kafka 1.0 or later"


async def authenticate(line: Line, sasl: SaslSettings, exchange: SaslExchange, timeout_ms: int) -> int:
    """For how many milliseconds the broker accepts it; 0: for ever. `AuthenticationFailed` if it does not."""
    await _agree(line, sasl.mechanism, timeout_ms)
    words: bytes | None = await asyncio.to_thread(exchange.first)
    lasts_ms = 0
    for _ in range(MOST_ROUNDS):
        if words is None:
            return lasts_ms
        request = SaslAuthenticateRequest(auth_bytes=words)
        answer = await call(line, request, SaslAuthenticateResponse, timeout_ms=timeout_ms)
        if answer.error_code:
            raise _refusal(line, sasl, int(answer.error_code), answer.error_message)
        lasts_ms = int(getattr(answer, "session_lifetime_ms", None) or 0)
        try:
            words = await asyncio.to_thread(exchange.next, bytes(answer.auth_bytes))
        except SecurityFailed as problem:
            raise type(problem)(f"{line.address}: {problem.message}", hint=problem.hint) from problem
    raise SecurityFailed(f"{line.address}: SASL has not ended after {MOST_ROUNDS} rounds")


async def _agree(line: Line, mechanism: SaslMechanism, timeout_ms: int) -> None:
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
        raise SecurityFailed(f"{line.address} SaslHandshake: {ErrorCode.name_of(answer.error_code)}")


def _refusal(line: Line, sasl: SaslSettings, code: int, told: str | None) -> SecurityFailed:
    who = sasl.kerberos.principal if sasl.kerberos is not None else sasl.username
    said = ErrorCode.name_of(code)
    if told and not (sasl.password and sasl.password in told):
        said = _quoted(told)
    words = f"{line.address} refuses {sasl.mechanism.value} as {who!r}: {said}"
    if code != ErrorCode.SASL_AUTHENTICATION_FAILED:
        return SecurityFailed(words, hint="see the broker's log")
    return AuthenticationFailed(
        words,
        hint="check the user name and the password in sasl.jaas.config, and that the cluster knows the user",
    )


def _quoted(told: str) -> str:
    """As much of a stranger's words as a line of a log can bear, and nothing that a terminal would obey."""
    return "".join(each if each.isprintable() else "?" for each in told[:MOST_TOLD])
