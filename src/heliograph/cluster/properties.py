"""Kafka client properties: the ones that are honoured, as a typed value.

Owns names, defaults and ranges. Must not know config files: it is given a mapping and answers with every
problem at once. A property that would have no effect is refused, never ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

from heliograph.cluster.bootstrap_servers import Address, parse_servers
from heliograph.cluster.refused_properties import refusal
from heliograph.cluster.security.security_properties import (
    NOT_UTF_8,
    SECURITY_NAMES,
    is_about_security,
    is_utf_8,
    missing_security,
    parse_security,
    security_problems,
)
from heliograph.cluster.security.settings import NO_SECURITY, Security
from heliograph.model.errors import ConfigError

_INT_MAX = 2**31 - 1
_OS_CHOOSES = -1
_WHOLE_NUMBER = re.compile(r"-?\d{1,19}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientProperties:
    """Fields but the last are Kafka's names with `_` for `.`; defaults are Kafka's, socket buffers the OS's (-1)."""

    bootstrap_servers: tuple[Address, ...]
    client_id: str = "heliograph"
    request_timeout_ms: int = 30_000
    metadata_max_age_ms: int = 300_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    retry_backoff_ms: int = 100
    socket_connection_setup_timeout_ms: int = 10_000
    connections_max_idle_ms: int = 540_000
    send_buffer_bytes: int = _OS_CHOOSES
    receive_buffer_bytes: int = _OS_CHOOSES
    fetch_min_bytes: int = 1
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 52_428_800
    max_partition_fetch_bytes: int = 1_048_576
    max_request_size: int = 1_048_576
    max_in_flight_requests_per_connection: int = 5
    broker_version_fallback: str = ""  # librdkafka's; empty: brokers must answer ApiVersions
    cluster_id: str = ""  # ours; empty: the cluster has one, whichever it is
    security: Security = NO_SECURITY  # what all of security.*, ssl.* and sasl.* say


_PLAIN_NAMES = tuple(
    field.name.replace("_", ".") for field in fields(ClientProperties) if field.name != "security"
)
HONOURED = (*_PLAIN_NAMES, *SECURITY_NAMES)
SOURCE_ONLY = frozenset({"broker.version.fallback", *(name for name in HONOURED if "fetch" in name)})
OF_CLUSTER = frozenset({"bootstrap.servers", "cluster.id", "security.protocol"})  # the same whoever asks it
TARGET_ONLY = frozenset({"max.request.size", "max.in.flight.requests.per.connection"})

# A healthy broker may take some hundred milliseconds to answer an append: it waits for followers. An append that is not
# answered in time counts as lost, and the target is asked what became of it: below this, that would be most of them.
_LEAST_REQUEST_TIMEOUT_MS = 1000
_RELEASE = re.compile(r"\d{1,3}(\.\d{1,3}){1,3}", re.ASCII)
_OLDEST_RELEASE = (0, 8)
# It is part of the names of groups and transactional ids on the target.
_CLUSTER_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_OR_OS_CHOOSES = ("send.buffer.bytes", "receive.buffer.bytes")
_RANGES = {
    "request.timeout.ms": (1, _INT_MAX),
    "metadata.max.age.ms": (1, _INT_MAX),
    "reconnect.backoff.ms": (0, _INT_MAX),
    "reconnect.backoff.max.ms": (0, _INT_MAX),
    "retry.backoff.ms": (0, _INT_MAX),
    "socket.connection.setup.timeout.ms": (1, _INT_MAX),
    "connections.max.idle.ms": (-1, _INT_MAX),
    **dict.fromkeys(_OR_OS_CHOOSES, (_OS_CHOOSES, _INT_MAX)),
    "fetch.min.bytes": (0, _INT_MAX),
    "fetch.max.wait.ms": (0, _INT_MAX),
    "fetch.max.bytes": (1, _INT_MAX),
    "max.partition.fetch.bytes": (1, _INT_MAX),
    "max.request.size": (1, _INT_MAX),
    # The broker remembers the last 5 batches of a producer id: more in flight could not be told apart.
    "max.in.flight.requests.per.connection": (1, 5),
}


def parse_properties(properties: Mapping[str, str]) -> ClientProperties:
    """The typed value, or a ConfigError with all problems, each `name: what is wrong`."""
    problems = property_problems(properties) + missing_security(properties)
    if "bootstrap.servers" not in properties:
        problems.insert(0, "bootstrap.servers: required: at least one host:port")
    if problems:
        raise ConfigError(problems, hint="docs/CONFIG.md lists the Kafka properties that are honoured")
    plain = ((name, text) for name, text in properties.items() if name in _PLAIN_NAMES)
    values: dict[str, Any] = {name.replace(".", "_"): _value(name, text) for name, text in plain}
    return ClientProperties(**values, security=parse_security(properties))


def property_problems(properties: Mapping[str, str]) -> list[str]:
    """What is wrong with the properties that are there, whether or not they are a full set."""
    problems: list[str] = []
    values: dict[str, Any] = {}
    for name, text in properties.items():
        if is_about_security(name):
            continue
        try:
            values[name] = _value(name, text)
        except ValueError as error:
            problems.append(f"{name}: {error}")
    return problems + _contradictions(values) + security_problems(properties)


def _value(name: str, text: str) -> str | int | tuple[Address, ...]:
    if name not in HONOURED:
        raise ValueError(_why_not(name))
    if name == "bootstrap.servers":
        return parse_servers(text)
    if name == "client.id":
        return _client_id(text)
    if name == "broker.version.fallback":
        return _release(text)
    if name == "cluster.id":
        return _cluster_id(text)
    number = _number(text, *_RANGES[name])
    if name == "request.timeout.ms" and number < _LEAST_REQUEST_TIMEOUT_MS:
        raise ValueError(
            f"{number} is below {_LEAST_REQUEST_TIMEOUT_MS}: a healthy broker that waits for followers may be slower,"
            " and whatever it does not answer in time counts as lost"
        )
    if number == 0 and name in _OR_OS_CHOOSES:
        raise ValueError("0 is no size of a buffer; -1 leaves it to the operating system")
    return number


def _why_not(name: str) -> str:
    reason = refusal(name)
    if reason is not None:
        return f"not honoured: {reason}" if reason != "not built yet" else reason
    close = get_close_matches(name, HONOURED, n=1)
    return "unknown property" + (f"; did you mean {close[0]}?" if close else "")


def _release(text: str) -> str:
    if text and (_RELEASE.fullmatch(text) is None or tuple(map(int, text.split("."))) < _OLDEST_RELEASE):
        raise ValueError(f"{text!r} is not a release of Kafka from 0.8 on, such as 0.9.0.1")
    return text


def _client_id(text: str) -> str:
    if not is_utf_8(text):
        raise ValueError(NOT_UTF_8)
    return text


def _cluster_id(text: str) -> str:
    if text and _CLUSTER_ID.fullmatch(text) is None:
        raise ValueError(f"{text!r} cannot be an id: up to 64 letters, digits, '.', '_' and '-'")
    return text


def _number(text: str, low: int, high: int) -> int:
    if _WHOLE_NUMBER.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a whole number")
    number = int(text)
    if not low <= number <= high:
        raise ValueError(f"{number} is not between {low} and {high}")
    return number


def _contradictions(values: Mapping[str, Any]) -> list[str]:
    """Pairs that cannot both hold. A pair counts only if one of the two was set, with the other's default."""
    pairs = (
        ("fetch.max.wait.ms", "request.timeout.ms"),
        ("reconnect.backoff.ms", "reconnect.backoff.max.ms"),
    )
    problems = []
    for lower, upper in pairs:
        low, high = (values.get(name, _default(name)) for name in (lower, upper))
        if low > high:
            problems.append(f"{lower}: {low} is above {upper} ({high})")
    return problems


def _default(name: str) -> Any:
    return next(field.default for field in fields(ClientProperties) if field.name == name.replace(".", "_"))
