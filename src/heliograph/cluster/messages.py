"""The control plane's requests and answers: kafka-python's message classes, used as codecs only.

kafka-python owns the bytes of every API but Fetch and Produce; our connections carry them, so that a slow
admin call never blocks the data loop and one place does timeouts, TLS and SASL. Its classes are untyped:
values leave this layer as frozen values of our own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka.protocol.api_message import ApiMessage

from heliograph.cluster.gate import Permit
from heliograph.cluster.line import Line
from heliograph.model.errors import BrokerRefused, ProtocolError
from heliograph.model.hints import SUPPORTED_VERSIONS
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.error_codes import ErrorCode

# What the versions above these change is of no use to us, and would have to be told apart: commits to groups of a newer
# protocol and by topic id, many groups in one question; transactions that have an epoch each, brokers' own questions.
_HIGHEST = {
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.OFFSET_FETCH: 7,
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.END_TXN: 4,
}

# Below this a request for metadata may create the topics that it names; who must talk to such brokers asks for all
# (client.py).
_LOWEST = {ApiKey.METADATA: 4}

_DECODE_FAULTS = (struct.error, ValueError, IndexError, KeyError, TypeError, OverflowError)


async def call(
    connection: Line,
    request: Any,
    response_class: type[Any],
    *,
    timeout_ms: int,
    permit: Permit | None = None,
) -> Any:
    """Send one message in the highest version that both sides know; return the decoded answer. With a `permit` it
    leaves only if that says yes (cluster/gate.py)."""
    version = choose_version(connection, request)
    flexible = request.flexible_version_q(version)
    body = await connection.request(
        request.API_KEY,
        version,
        [request.encode(version=version)],
        flexible=flexible,
        timeout_ms=timeout_ms,
        permit=permit,
    )
    return decode(response_class, body, version, connection.address)


def choose_version(connection: Line, request: ApiMessage) -> int:
    highest = _HIGHEST.get(request.API_KEY, request.max_version)
    lowest = _LOWEST.get(request.API_KEY, request.min_version)
    return common_version(connection, request.API_KEY, request.name, range(lowest, highest + 1))


def common_version(connection: Line, api_key: int, name: str, ours: range) -> int:
    """The highest version of an API that both sides know."""
    lowest, highest = connection.versions.get(api_key, (0, -1))
    version = min(highest, ours[-1])
    if version < max(lowest, ours[0]):
        offered = f"versions {lowest} to {highest}" if highest >= 0 else "no version"
        raise BrokerRefused(
            f"{connection.address} offers {offered} of {name}, we speak {ours[0]} to {ours[-1]}",
            code=ErrorCode.UNSUPPORTED_VERSION,
            hint=f"upgrade its brokers: {SUPPORTED_VERSIONS}",
        )
    return int(version)


def decode(response_class: type[Any], body: memoryview, version: int, address: str) -> Any:
    try:
        return response_class.decode(body, version=version)
    except _DECODE_FAULTS as problem:
        raise ProtocolError(f"{address}: an unreadable {response_class.__name__}: {problem}") from problem


@contextmanager
def unpacking(what: str) -> Iterator[None]:
    """Turn an answer's values into ours: one that lacks what it must hold is a ProtocolError, not a bug of ours."""
    try:
        yield
    except (*_DECODE_FAULTS, AttributeError) as problem:
        raise ProtocolError(f"{what}: an answer that makes no sense ({problem})") from problem


def raise_for(code: int, what: str) -> None:
    """Raise `BrokerRefused` unless the code is 0."""
    if code:
        raise refused(code, what)


def refused(code: int, what: str) -> BrokerRefused:
    return BrokerRefused(f"{what}: {ErrorCode.name_of(code)}", code=code)


def left_out(what: str) -> ProtocolError:
    """Of an answer about many things that says nothing of one that was asked for."""
    return ProtocolError(f"{what}: the answer leaves it out")
