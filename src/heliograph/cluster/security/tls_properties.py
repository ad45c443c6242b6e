"""`ssl.*`: whom to trust, our own certificate, protocols and cipher suites, as Kafka's Java clients take them.

Owns names, defaults and what contradicts what. Must not know whether TLS is wanted (security_properties.py), nor open
a store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from heliograph.cluster.security.cipher_suites import protocols_with, suite_problems
from heliograph.cluster.security.settings import KeyStore, StoreKind, TlsSettings, TrustStore
from heliograph.cluster.security.store_problems import convert_line

TLS_DEFAULTS: Mapping[str, str] = {
    "ssl.truststore.type": "JKS",
    "ssl.truststore.location": "",
    "ssl.truststore.password": "",
    "ssl.truststore.certificates": "",
    "ssl.keystore.type": "JKS",
    "ssl.keystore.location": "",
    "ssl.keystore.password": "",
    "ssl.keystore.key": "",
    "ssl.keystore.certificate.chain": "",
    "ssl.key.password": "",
    "ssl.endpoint.identification.algorithm": "https",
    "ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
    "ssl.protocol": "TLSv1.3",
    "ssl.cipher.suites": "",
}

_OFFERED = ("TLSv1.2", "TLSv1.3")
# What an SSLContext of Java by this name can speak at most.
_UP_TO = {"TLS": _OFFERED, "TLSv1.3": _OFFERED, "TLSv1.2": ("TLSv1.2",)}
Tell = Callable[[str, str], None]


def read_tls(values: Mapping[str, str], tell: Tell) -> TlsSettings:
    """`values`: of every name in TLS_DEFAULTS. `tell(name, what is wrong)` is called for each problem."""
    return TlsSettings(
        trust=_trust(values, tell),
        identity=_identity(values, tell),
        checks_host=_checks_host(values, tell),
        protocols=_protocols(values, tell),
        cipher_suites=_listed(values["ssl.cipher.suites"]),
    )


def _trust(values: Mapping[str, str], tell: Tell) -> TrustStore | None:
    store = "ssl.truststore"
    kind = _kind(values, store, tell)
    location, pem = values[f"{store}.location"], values[f"{store}.certificates"]
    password = values[f"{store}.password"]
    _check_places(values, store, "certificates", tell)
    if password and kind is StoreKind.PEM:
        tell(
            f"{store}.password", f"has no effect with {store}.type=PEM: certificates in PEM are not encrypted"
        )
    if not location and not pem:
        return None
    return TrustStore(kind=kind, location=location, pem=pem, password=password)


def _identity(values: Mapping[str, str], tell: Tell) -> KeyStore | None:
    store = "ssl.keystore"
    kind = _kind(values, store, tell)
    location, key, chain = (values[f"{store}.{each}"] for each in ("location", "key", "certificate.chain"))
    password, key_password = values[f"{store}.password"], values["ssl.key.password"]
    _check_places(values, store, "key", tell)
    if bool(key) != bool(chain):
        lacking, there = ("certificate.chain", "key") if key else ("key", "certificate.chain")
        tell(f"{store}.{lacking}", f"required with {store}.{there}")
    if password and kind is StoreKind.PEM:
        tell(f"{store}.password", f"has no effect with {store}.type=PEM: set ssl.key.password")
    if not location and not key:
        if key_password:
            tell("ssl.key.password", f"has no effect without {store}.location or {store}.key")
        return None
    return KeyStore(
        kind=kind,
        location=location,
        pem_key=key,
        pem_chain=chain,
        password=password,
        key_password=key_password,
    )


def _check_places(values: Mapping[str, str], store: str, inline: str, tell: Tell) -> None:
    """A store is a file or a text in PEM, not both; without one, what describes it has no effect."""
    location, text = values[f"{store}.location"], values[f"{store}.{inline}"]
    if text and values[f"{store}.type"].upper() != StoreKind.PEM:
        tell(f"{store}.{inline}", f"needs {store}.type: PEM")
    if text and location:
        tell(f"{store}.location", f"{store}.{inline} is set, too: keep one of them")
    if location or text:
        return
    for name in (f"{store}.type", f"{store}.password"):
        if values[name] != TLS_DEFAULTS[name]:
            tell(name, f"has no effect without {store}.location or {store}.{inline}")


def _kind(values: Mapping[str, str], store: str, tell: Tell) -> StoreKind:
    text = values[f"{store}.type"]
    if text.upper() in StoreKind.__members__:
        return StoreKind(text.upper())
    line = convert_line(values[f"{store}.location"] or "STORE", text)
    tell(f"{store}.type", f"{text!r} cannot be read, only {', '.join(StoreKind)}; convert the store: {line}")
    return StoreKind.JKS


def _checks_host(values: Mapping[str, str], tell: Tell) -> bool:
    name = "ssl.endpoint.identification.algorithm"
    if values[name].lower() not in ("https", ""):
        tell(name, f"{values[name]!r} is neither https nor empty")
    return values[name] != ""


def _protocols(values: Mapping[str, str], tell: Tell) -> tuple[str, ...]:
    """Those that all three properties leave. As in Java a protocol without a suite is not offered."""
    enabled, suites = _listed(values["ssl.enabled.protocols"]), _listed(values["ssl.cipher.suites"])
    highest = values["ssl.protocol"]
    kept = [each for each in _OFFERED if each in enabled]
    problems = [("ssl.cipher.suites", each) for each in suite_problems(suites)]
    if set(kept) != set(enabled) or not enabled:
        line = f"ssl.enabled.protocols: {','.join(kept or _OFFERED)}"
        problems.append(("ssl.enabled.protocols", f"only TLSv1.2 and TLSv1.3 are offered; write {line}"))
    if highest not in _UP_TO:
        problems.append(("ssl.protocol", f"{highest!r} is none of {', '.join(_UP_TO)}"))
    if not problems:
        having_suites = protocols_with(suites) if suites else _OFFERED
        kept = [each for each in kept if each in _UP_TO[highest] and each in having_suites]
        if not kept:
            words = "ssl.protocol and ssl.cipher.suites leave no version of TLS"
            problems.append(("ssl.enabled.protocols", words))
    for name, what in problems:
        tell(name, what)
    return tuple(kept)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
