"""Properties of Kafka's security that are not honoured, each with the reason a user is told.

The value that a property has anyway is accepted: files of client properties are copied from one tool to another, and
defaults ask for nothing. Must not know the honoured ones (tls_properties.py, sasl_properties.py).
"""

from __future__ import annotations

_NO_JAVA = "a Java class cannot be loaded here"
_OPENSSL = "TLS is OpenSSL's here, not Java's"
_BROKERS = "it is a setting of brokers, not of clients"
_OAUTH = "OAUTHBEARER is not built yet"
_TICKETS = "new tickets are obtained with the keytab before the old ones expire, without kinit"
_OAUTH_CLASSES = "org.apache.kafka.common.security.oauthbearer"
_DEFAULT_ENGINE = "org.apache.kafka.common.security.ssl.DefaultSslEngineFactory"

# Of each property: its default, empty if it has none, and why others are refused.
_REFUSED: dict[str, tuple[str, str]] = {
    "security.providers": ("", _NO_JAVA),
    "security.inter.broker.protocol": ("", _BROKERS),
    "ssl.provider": ("", _OPENSSL),
    "ssl.keymanager.algorithm": ("SunX509", _OPENSSL),
    "ssl.trustmanager.algorithm": ("PKIX", _OPENSSL),
    "ssl.secure.random.implementation": ("", _OPENSSL),
    "ssl.engine.factory.class": (_DEFAULT_ENGINE, _NO_JAVA),
    "ssl.client.auth": ("none", f"{_BROKERS}; a client certificate is set by ssl.keystore.*"),
    "ssl.principal.mapping.rules": ("DEFAULT", _BROKERS),
    "ssl.allow.dn.changes": ("false", _BROKERS),
    "ssl.allow.san.changes": ("false", _BROKERS),
    "sasl.enabled.mechanisms": ("", f"{_BROKERS}; set sasl.mechanism"),
    "sasl.mechanism.inter.broker.protocol": ("", f"{_BROKERS}; set sasl.mechanism"),
    "sasl.mechanism.controller.protocol": ("", _BROKERS),
    "sasl.server.callback.handler.class": ("", _BROKERS),
    "sasl.kerberos.principal.to.local.rules": ("DEFAULT", _BROKERS),
    "sasl.kerberos.kinit.cmd": ("/usr/bin/kinit", _TICKETS),
    "sasl.kerberos.ticket.renew.window.factor": ("0.8", _TICKETS),
    "sasl.kerberos.ticket.renew.jitter": ("0.05", _TICKETS),
    "sasl.kerberos.min.time.before.relogin": ("60000", _TICKETS),
    "sasl.login.refresh.window.factor": ("0.8", _OAUTH),
    "sasl.login.refresh.window.jitter": ("0.05", _OAUTH),
    "sasl.login.refresh.min.period.seconds": ("60", _OAUTH),
    "sasl.login.refresh.buffer.seconds": ("300", _OAUTH),
    "sasl.login.connect.timeout.ms": ("", _OAUTH),
    "sasl.login.read.timeout.ms": ("", _OAUTH),
    "sasl.login.retry.backoff.ms": ("100", _OAUTH),
    "sasl.login.retry.backoff.max.ms": ("10000", _OAUTH),
    "sasl.oauthbearer.assertion.algorithm": ("RS256", _OAUTH),
    "sasl.oauthbearer.assertion.claim.exp.seconds": ("300", _OAUTH),
    "sasl.oauthbearer.assertion.claim.jti.include": ("false", _OAUTH),
    "sasl.oauthbearer.assertion.claim.nbf.seconds": ("60", _OAUTH),
    "sasl.oauthbearer.clock.skew.seconds": ("30", _OAUTH),
    "sasl.oauthbearer.header.urlencode": ("false", _OAUTH),
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": ("3600000", _OAUTH),
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": ("100", _OAUTH),
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": ("10000", _OAUTH),
    "sasl.oauthbearer.jwt.retriever.class": (f"{_OAUTH_CLASSES}.DefaultJwtRetriever", _OAUTH),
    "sasl.oauthbearer.jwt.validator.class": (f"{_OAUTH_CLASSES}.DefaultJwtValidator", _OAUTH),
    "sasl.oauthbearer.scope.claim.name": ("scope", _OAUTH),
    "sasl.oauthbearer.sub.claim.name": ("sub", _OAUTH),
}


def is_known_refusal(name: str) -> bool:
    return name in _REFUSED or name.startswith("sasl.oauthbearer.")


def refusal_of(name: str, text: str) -> str | None:
    """Why this property is refused with this value; None where the value asks for nothing."""
    default, reason = _REFUSED.get(name, ("", _OAUTH))
    return None if text in ("", default) else reason
