"""Kafka's `security.*`, `ssl.*` and `sasl.*` properties: the ones that are honoured, as one typed value.

Owns which of them count with which protocol. All problems come at once, each `name: what is wrong`, and none of them
holds a secret. A property that would have no effect is refused unless it has its default value: Java's clients ignore
it silently, while somebody believes to be protected by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from heliograph.cluster.security.refused_security import is_known_refusal, refusal_of
from heliograph.cluster.security.sasl_properties import SASL_DEFAULTS, read_sasl
from heliograph.cluster.security.settings import Security, SecurityProtocol
from heliograph.cluster.security.tls_properties import TLS_DEFAULTS, read_tls
from heliograph.model.errors import ConfigError

_PROTOCOL = "security.protocol"
SECURITY_DEFAULTS: Mapping[str, str] = {
    _PROTOCOL: SecurityProtocol.PLAINTEXT.value,
    **TLS_DEFAULTS,
    **SASL_DEFAULTS,
}
SECURITY_NAMES = tuple(SECURITY_DEFAULTS)
# Java and brokers write names and passwords in UTF-8. What cannot be written so comes from bytes in another encoding;
# encoding it later would fail with an error that holds it.
NOT_UTF_8 = "is not UTF-8: see how the file or the environment variable that it comes from is encoded"
_PATHS = ("ssl.truststore.location", "ssl.keystore.location")  # the system's own, in whatever encoding
_PREFIXES = ("security.", "ssl.", "sasl.")


def is_about_security(name: str) -> bool:
    """Whether a property is judged here, be it honoured, refused or unknown."""
    return name.startswith(_PREFIXES)


def is_utf_8(text: str) -> bool:
    """Whether it can be written in UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def parse_security(properties: Mapping[str, str]) -> Security:
    """The typed value; ConfigError with all problems. Properties about something else are passed over."""
    reading = _read(properties)
    if reading.problems or reading.missing:
        raise ConfigError([*reading.problems, *reading.missing])
    return reading.security


def security_problems(properties: Mapping[str, str]) -> list[str]:
    """What is wrong with the properties that are there, whether or not they are a full set."""
    return list(_read(properties).problems)


def missing_security(properties: Mapping[str, str]) -> list[str]:
    """What is not there and must be, with the properties that are there."""
    return list(_read(properties).missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """`security` is whole if there are no problems and nothing is missing."""

    security: Security
    problems: tuple[str, ...]
    missing: tuple[str, ...]


def _read(properties: Mapping[str, str]) -> _Reading:
    problems: list[str] = []
    missing: list[str] = []

    def tell(name: str, what: str) -> None:
        problems.append(f"{name}: {what}")

    given = {name: text for name, text in properties.items() if is_about_security(name)}
    problems += [f"{name}: {why}" for name, text in given.items() if (why := _why_not(name, text))]
    problems += [
        f"{name}: {NOT_UTF_8}" for name, text in given.items() if name not in _PATHS and not is_utf_8(text)
    ]
    protocol = _protocol(given.get(_PROTOCOL, SECURITY_DEFAULTS[_PROTOCOL]))
    if protocol is None:
        tell(_PROTOCOL, f"{given[_PROTOCOL]!r} is none of {', '.join(SecurityProtocol)}")
        return _Reading(security=Security(), problems=tuple(problems), missing=())
    for defaults, counts in ((TLS_DEFAULTS, protocol.encrypts), (SASL_DEFAULTS, protocol.authenticates)):
        for name in () if counts else defaults:
            if given.get(name, defaults[name]) != defaults[name]:
                tell(name, f"has no effect with security.protocol={protocol}")
    values = {**SECURITY_DEFAULTS, **given}
    security = Security(
        protocol=protocol,
        tls=read_tls(values, tell) if protocol.encrypts else None,
        sasl=read_sasl(values, tell, lambda name, what: missing.append(f"{name}: {what}"))
        if protocol.authenticates
        else None,
    )
    return _Reading(security=security, problems=tuple(problems), missing=tuple(missing))


def _why_not(name: str, text: str) -> str | None:
    if name in SECURITY_NAMES:
        return None
    if is_known_refusal(name):
        reason = refusal_of(name, text)
        return f"not honoured: {reason}" if reason else None
    close = get_close_matches(name, SECURITY_NAMES, n=1)
    return "unknown property" + (f"; did you mean {close[0]}?" if close else "")


def _protocol(text: str) -> SecurityProtocol | None:
    """As in Java the case of the letters does not matter."""
    known = text.upper() in SecurityProtocol.__members__
    return SecurityProtocol(text.upper()) if known else None
