"""Java's names of cipher suites are OpenSSL's, by the numbers that the standards give them."""

from __future__ import annotations

import ssl

import pytest

from heliograph.cluster.security.cipher_suites import (
    TLS_1_3_SUITES,
    openssl_name,
    openssl_names,
    protocols_with,
    suite_problems,
)

# IANA's registry of TLS cipher suites
NUMBERS = {
    "TLS_RSA_WITH_AES_128_CBC_SHA": 0x002F,
    "TLS_DHE_DSS_WITH_AES_128_CBC_SHA": 0x0032,
    "TLS_DHE_RSA_WITH_AES_256_CBC_SHA": 0x0039,
    "TLS_RSA_WITH_AES_256_CBC_SHA256": 0x003D,
    "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256": 0x0067,
    "TLS_RSA_WITH_AES_128_GCM_SHA256": 0x009C,
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": 0x009F,
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": 0xC009,
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": 0xC014,
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384": 0xC024,
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": 0xC027,
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": 0xC02B,
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": 0xC030,
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": 0xCCA8,
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": 0xCCA9,
    "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256": 0xCCAA,
}


@pytest.mark.parametrize("suite", NUMBERS)
def test_a_suite_of_tls_1_2_is_the_one_that_openssl_has_under_that_number(suite: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("ALL:@SECLEVEL=0")
    names = {each["id"] & 0xFFFF: each["name"] for each in context.get_ciphers()}
    assert openssl_name(suite) == names[NUMBERS[suite]]
    assert suite_problems([suite]) == []


@pytest.mark.parametrize(
    "suite",
    ["ECDHE-RSA-AES128-GCM-SHA256", "TLS_RSA_WITH_AES_512_GCM_SHA384", "SSL_RSA_WITH_RC4_128_MD5", "x"],
)
def test_what_is_no_suite_is_told(suite: str) -> None:
    (problem,) = suite_problems([suite])
    assert problem.startswith(f"{suite!r} is no cipher suite")


@pytest.mark.parametrize("suite", TLS_1_3_SUITES)
def test_suites_of_tls_1_3_are_named_together_or_not_at_all(suite: str) -> None:
    (problem,) = suite_problems([suite, "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"])
    assert "cannot be chosen one by one" in problem
    assert suite_problems(TLS_1_3_SUITES) == []


def test_a_list_keeps_its_order_and_says_which_protocols_it_leaves() -> None:
    suites = ["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_RSA_WITH_AES_128_CBC_SHA"]
    assert openssl_names([*TLS_1_3_SUITES, *suites]) == "ECDHE-RSA-AES256-GCM-SHA384:AES128-SHA"
    assert protocols_with(suites) == {"TLSv1.2"}
    assert protocols_with(TLS_1_3_SUITES) == {"TLSv1.3"}
    assert protocols_with([*suites, *TLS_1_3_SUITES]) == {"TLSv1.2", "TLSv1.3"}
