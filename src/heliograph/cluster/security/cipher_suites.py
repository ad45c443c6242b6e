"""`ssl.cipher.suites`: Java's names of cipher suites, as OpenSSL calls them.

Java has the names of the standards (TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256), OpenSSL its own for those of TLS 1.2
(ECDHE-RSA-AES128-GCM-SHA256). Python's ssl can choose among the suites of TLS 1.2; of those of TLS 1.3 it offers all.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable
from functools import cache

TLS_1_3_SUITES = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
# Java lists it among the suites. It is a signal, and OpenSSL always sends it.
_SIGNAL = "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"
_TLS_1_2_SUITE = re.compile(
    r"TLS_(?P<exchange>(?:EC)?DHE_(?:RSA|ECDSA|DSS)|RSA)"
    r"_WITH_(?:AES_(?P<bits>128|256)_(?P<mode>GCM|CBC)_(?P<hash>SHA(?:256|384)?)|CHACHA20_POLY1305_SHA256)"
)


def suite_problems(suites: Iterable[str]) -> list[str]:
    """What is wrong with a list of them; an empty list leaves the choice to OpenSSL."""
    named = set(suites)
    unknown = [suite for suite in suites if not _is_known(suite)]
    problems = [f"{suite!r} is no cipher suite of TLS 1.2 or 1.3 that OpenSSL has here" for suite in unknown]
    if named & set(TLS_1_3_SUITES) and not named >= set(TLS_1_3_SUITES):
        problems.append(
            "the suites of TLS 1.3 cannot be chosen one by one (Python's ssl has no way to):"
            f" name all of {', '.join(TLS_1_3_SUITES)}, or none, which leaves TLS 1.2"
        )
    return problems


def protocols_with(suites: Iterable[str]) -> frozenset[str]:
    """The protocols that have one of these suites."""
    has_1_3 = any(suite in TLS_1_3_SUITES for suite in suites)
    has_1_2 = any(openssl_name(suite) for suite in suites)
    return frozenset({*(["TLSv1.3"] if has_1_3 else []), *(["TLSv1.2"] if has_1_2 else [])})


def openssl_names(suites: Iterable[str]) -> str:
    """For `SSLContext.set_ciphers`, in the same order; empty if none of them is of TLS 1.2."""
    return ":".join(name for suite in suites if (name := openssl_name(suite)))


def openssl_name(suite: str) -> str | None:
    """None if it is none of TLS 1.2."""
    found = _TLS_1_2_SUITE.fullmatch(suite)
    if found is None:
        return None
    exchange = "" if found["exchange"] == "RSA" else found["exchange"].replace("_", "-") + "-"
    if not found["bits"]:
        return f"{exchange}CHACHA20-POLY1305"
    mode = "-GCM" if found["mode"] == "GCM" else ""  # CBC is left unsaid
    return f"{exchange}AES{found['bits']}{mode}-{found['hash']}"


@cache
def _is_known(suite: str) -> bool:
    if suite in (*TLS_1_3_SUITES, _SIGNAL):
        return True
    name = openssl_name(suite)
    if name is None:
        return False
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).set_ciphers(name)
    except ssl.SSLError:
        return False
    return True
