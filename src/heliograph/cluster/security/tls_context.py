"""An `ssl.SSLContext` out of settings, kept up to date with the files that they name.

Owns how a context is made: the broker's certificate is always verified; a truststore is the only trust there is, as in
Java; a private key is never on a disk. Must not know connections: each asks for the current context when it is opened.
"""

from __future__ import annotations

import hashlib
import os
import ssl
import threading
import time
from collections.abc import Callable

from heliograph.cluster.security.cipher_suites import openssl_names
from heliograph.cluster.security.identity import Identity
from heliograph.cluster.security.keystores import identity_of, trusted_certificates
from heliograph.cluster.security.settings import KeyStore, TlsSettings, TrustStore
from heliograph.cluster.security.store_files import read_store
from heliograph.cluster.security.store_problems import KEY_STORE, TRUST_STORE, damaged
from heliograph.model.errors import SecurityUnusable

LOOK_INTERVAL_S = 1.0  # connections are opened in bursts, one for each broker and purpose
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


class TlsContexts:
    """Of one cluster. Any thread may ask.

    A file that has changed counts for the next connection. If it cannot be used, the last context that could be made
    goes on, because files are seldom replaced in one step, and `problem` says what is wrong.
    """

    def __init__(self, settings: TlsSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None
        self._problem: SecurityUnusable | None = None
        self._digest = b""  # of the files that `_context` was made of
        self._look_at = float("-inf")

    @property
    def problem(self) -> SecurityUnusable | None:
        """Why files that have changed are not in use."""
        return self._problem

    def current(self) -> ssl.SSLContext:
        """Reads files. SecurityUnusable if there has never been a context."""
        with self._lock:
            if self._context is None or self._clock() >= self._look_at:
                self._look()
                self._look_at = self._clock() + LOOK_INTERVAL_S
            if self._context is None:
                assert self._problem is not None
                raise self._problem
            return self._context

    def _look(self) -> None:
        settings = self._settings
        try:
            trust, identity = _content(settings.trust), _content(settings.identity)
            digest = hashlib.sha256(hashlib.sha256(trust).digest() + identity).digest()
            if self._context is None or digest != self._digest:
                self._context = make_context(settings, trust, identity)
                self._digest = digest
            self._problem = None
        except SecurityUnusable as problem:
            self._problem = problem


def _content(store: TrustStore | KeyStore | None) -> bytes:
    return read_store(store.location) if store is not None and store.location else b""


def make_context(settings: TlsSettings, trust: bytes, identity: bytes) -> ssl.SSLContext:
    """`trust`, `identity`: what is in the stores, where they are files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.checks_host
    versions = [_VERSIONS[each] for each in settings.protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.options |= ssl.OP_NO_RENEGOTIATION  # brokers of Kafka never ask for it
    # As in Java every certificate in a truststore is an anchor, also one that another authority has signed.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if names := openssl_names(settings.cipher_suites):
        context.set_ciphers(names)
    if settings.trust is None:
        _trust_system(context)
    else:
        _trust(context, trusted_certificates(settings.trust, trust), settings.trust)
    if settings.identity is not None:
        _present(context, identity_of(settings.identity, identity), settings.identity)
    return context


def _trust(context: ssl.SSLContext, certificates: tuple[bytes, ...], store: TrustStore) -> None:
    for number, certificate in enumerate(certificates, start=1):
        try:
            context.load_verify_locations(cadata=certificate)
        except ssl.SSLError:
            name = store.location or f"{TRUST_STORE}.certificates"
            raise damaged(f"certificate {number} in {name}", TRUST_STORE) from None


def _trust_system(context: ssl.SSLContext) -> None:
    context.load_default_certs()
    directory = ssl.get_default_verify_paths().capath  # OpenSSL looks into it when it verifies
    if not context.cert_store_stats()["x509_ca"] and not (directory and os.listdir(directory)):
        raise SecurityUnusable(
            "the system has no authorities to trust, and ssl.truststore.location is not set",
            hint="set ssl.truststore.location, or install them: apt-get install ca-certificates",
        )


def _present(context: ssl.SSLContext, identity: Identity, store: KeyStore) -> None:
    try:
        identity.show_in(context)
    except ssl.SSLError as problem:
        name = store.location or f"{KEY_STORE}.key"
        if problem.reason == "KEY_VALUES_MISMATCH":
            raise SecurityUnusable(
                f"the private key in {name} does not belong to the first certificate there",
                hint="put the certificate of the key first, then each that signed the one before",
            ) from None
        raise damaged(f"a certificate in {name}", KEY_STORE, problem.reason or "") from None
