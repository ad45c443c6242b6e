"""Why TLS failed, in words that name the file or the property to look at.

Owns the table from OpenSSL's codes to messages and hints. Must not know connections: who has one puts the broker's
address before the message.
"""

from __future__ import annotations

import ssl

from heliograph.cluster.security.settings import KeyStore, TlsSettings, TrustStore
from heliograph.model.errors import SecurityFailed

# X509_V_ERR_...: what is wrong with the broker's certificate
_NOT_YET_VALID = 9
_EXPIRED = 10
_UNKNOWN_ISSUERS = (
    2,
    18,
    19,
    20,
    21,
)  # no issuer, self-signed, self-signed in the chain, no local issuer, one leaf
_OTHER_NAME = (62, 64)  # a host, an address

# What a broker says of our certificate. Java's brokers say "bad" or "unknown" for most of it.
_OUR_CERTIFICATE = (
    "ALERT_CERTIFICATE_REQUIRED",
    "ALERT_BAD_CERTIFICATE",
    "ALERT_CERTIFICATE_UNKNOWN",
    "ALERT_CERTIFICATE_EXPIRED",
    "ALERT_CERTIFICATE_REVOKED",
    "ALERT_UNSUPPORTED_CERTIFICATE",
    "ALERT_UNKNOWN_CA",
    "ALERT_ACCESS_DENIED",
)
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")
_VERSIONS = (
    "ALERT_PROTOCOL_VERSION",
    "UNSUPPORTED_PROTOCOL",
    "NO_PROTOCOLS_AVAILABLE",
    "UNSUPPORTED_SSL_VERSION",
)
_CIPHERS = (
    "ALERT_HANDSHAKE_FAILURE",
    "NO_SHARED_CIPHER",
    "NO_CIPHERS_AVAILABLE",
    "ALERT_INSUFFICIENT_SECURITY",
)
_TOO_LARGE = ("EXCESSIVE_MESSAGE_SIZE", "CERTIFICATE_TOO_LARGE", "LENGTH_TOO_LONG")


def explain(problem: ssl.SSLError, settings: TlsSettings, host: str) -> SecurityFailed:
    """`host`: as the broker was addressed."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return _of_their_certificate(problem, settings, host)
    reason = problem.reason or ""
    if isinstance(problem, ssl.SSLEOFError) or reason.endswith("UNEXPECTED_EOF_WHILE_READING"):
        return closed_while_shaking()
    if reason.endswith(_OUR_CERTIFICATE):
        return _of_our_certificate(reason, settings.identity)
    if reason in _NO_TLS:
        return SecurityFailed(
            "does not speak TLS on this port",
            hint="name the port of a listener with TLS in bootstrap.servers, or set security.protocol to PLAINTEXT"
            " or SASL_PLAINTEXT",
        )
    if reason.endswith(_VERSIONS):
        ours = ", ".join(settings.protocols)
        return SecurityFailed(
            f"the broker speaks no version of TLS that is allowed here ({ours})",
            hint="compare ssl.enabled.protocols here and on the broker",
        )
    if reason.endswith(_CIPHERS):
        return SecurityFailed(
            "the broker ended the TLS handshake: no common cipher suite, or it wants a client certificate",
            hint="compare ssl.cipher.suites here and on the broker; for a listener with ssl.client.auth=required set"
            " ssl.keystore.location",
        )
    if reason.endswith(_TOO_LARGE):
        return SecurityFailed(
            "the peer's TLS messages are larger than any broker's", hint="is this the port of a Kafka broker?"
        )
    return SecurityFailed(f"TLS failed: {_words(problem)}", hint="see the broker's log for its side of it")


def closed_while_shaking() -> SecurityFailed:
    """What a listener without TLS does: to it the first bytes are a request of an impossible size."""
    return SecurityFailed(
        "closed the connection during the TLS handshake, as a listener without TLS does",
        hint="name the port of a listener with TLS in bootstrap.servers, or set security.protocol to PLAINTEXT or"
        " SASL_PLAINTEXT; see the broker's log",
    )


def refused_after_handshake(settings: TlsSettings) -> str:
    """The hint where a broker closes the connection before it has said anything."""
    if settings.identity is None:
        return "if the listener wants a client certificate, set ssl.keystore.location; see the broker's log"
    return f"see in the broker's log whether it refuses our certificate, of {_identity(settings.identity)}"


def _of_their_certificate(
    problem: ssl.SSLCertVerificationError, settings: TlsSettings, host: str
) -> SecurityFailed:
    code, trust = problem.verify_code, _trust(settings.trust)
    if code == _EXPIRED:
        return SecurityFailed(
            "the broker's certificate, or one that it is signed by, has expired",
            hint="renew it on the broker; or set this machine's clock, if that is wrong",
        )
    if code == _NOT_YET_VALID:
        return SecurityFailed(
            "the broker's certificate, or one that it is signed by, is not valid yet",
            hint="set this machine's clock, or the broker's",
        )
    if code in _UNKNOWN_ISSUERS:
        return SecurityFailed(
            f"the broker's certificate is signed by an authority that {trust} does not hold",
            hint="add the certificate of the broker's authority to what ssl.truststore.location names, or set that to"
            " the right file",
        )
    if code in _OTHER_NAME:
        return SecurityFailed(
            f"the broker's certificate is not for {host!r}",
            hint=f"address the broker by a name in its certificate (bootstrap.servers, and advertised.listeners on the"
            f" broker), or have one made with {host} as a subject alternative name",
        )
    return SecurityFailed(
        f"the broker's certificate cannot be trusted: {problem.verify_message}",
        hint=f"compare it with the authorities in {trust}",
    )


def _of_our_certificate(reason: str, identity: KeyStore | None) -> SecurityFailed:
    said = reason.partition("ALERT_")[2].replace("_", " ").lower()
    if identity is None:
        return SecurityFailed(
            f"the broker wants a client certificate ({said})",
            hint="set ssl.keystore.location (and ssl.keystore.password), or use the port of a listener that does not"
            " ask for one",
        )
    return SecurityFailed(
        f"the broker refuses our certificate, of {_identity(identity)} ({said})",
        hint="see whether it has expired, and whether its authority is in the broker's truststore",
    )


def _identity(identity: KeyStore) -> str:
    return identity.location or "ssl.keystore.certificate.chain"


def _trust(trust: TrustStore | None) -> str:
    if trust is None:
        return "the system's own list of authorities"
    return trust.location or "ssl.truststore.certificates"


def _words(problem: ssl.SSLError) -> str:
    return (problem.reason or "").replace("_", " ").lower() or type(problem).__name__
