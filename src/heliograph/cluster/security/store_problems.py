"""What is wrong with a store, in words that name it, the property to change and the line to paste; never a password."""

from __future__ import annotations

from shlex import quote

from heliograph.model.errors import SecurityUnusable

TRUST_STORE, KEY_STORE = "ssl.truststore", "ssl.keystore"  # how the properties of each begin


def convert_line(location: str, kind: str) -> str:
    """What makes a store that can be read out of one of this kind."""
    source = f"-srckeystore {quote(location)} -srcstoretype {quote(kind)}"
    return f"keytool -importkeystore {source} -destkeystore {quote(location + '.p12')} -deststoretype PKCS12"


def check_one_key(name: str, keys: int) -> None:
    if keys == 0:
        hint = f"correct {KEY_STORE}.*; a store of certificates alone is a truststore"
        raise SecurityUnusable(f"{name} holds no private key", hint=hint)
    if keys > 1:
        into = "-destkeystore mirror.p12 -deststoretype PKCS12"
        raise SecurityUnusable(
            f"{name} holds {keys} private keys, and which of them to use is not known",
            hint=f"keep one: keytool -importkeystore -srckeystore {quote(name)} -srcalias ALIAS {into}",
        )


def no_certificate(name: str) -> SecurityUnusable:
    return SecurityUnusable(
        f"{name} holds a private key and no certificate for it",
        hint="add the certificate, then those between it and the authority that signed it",
    )


def damaged(name: str, store: str, why: str = "") -> SecurityUnusable:
    return SecurityUnusable(
        f"{name} is damaged" + (f": {why}" if why else ""), hint=f"make it again, or correct {store}.*"
    )


def damaged_key(name: str) -> SecurityUnusable:
    return SecurityUnusable(
        f"the private key in {name} is damaged, or of a kind that OpenSSL does not have here",
        hint="export the key again as PKCS8: openssl pkcs8 -topk8 -in KEY -out NEW",
    )


def wrong_password(location: str, password: str, store: str) -> SecurityUnusable:
    words = (
        f"cannot be opened with {store}.password" if password else f"needs {store}.password, which is not set"
    )
    return SecurityUnusable(
        f"{location} {words}",
        hint=f"find the right password: keytool -list -keystore {quote(location)}; then set {store}.password",
    )
