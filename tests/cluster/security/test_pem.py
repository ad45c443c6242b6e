"""PEM: blocks are found however their lines end, and among any text."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.cluster.security.pem import pem_blocks

spaces = st.text(alphabet=" \t\r\n", min_size=1, max_size=3)


@given(st.binary(min_size=1, max_size=100), spaces, spaces, st.text(alphabet="ab :\n-"))
def test_a_block_may_be_broken_by_any_white_space(data: bytes, one: str, other: str, around: str) -> None:
    encoded = base64.b64encode(data).decode()
    half = len(encoded) // 2
    text = f"-----BEGIN CERTIFICATE-----{one}{encoded[:half]}{other}{encoded[half:]}{one}-----END CERTIFICATE-----"
    (block,) = pem_blocks(f"{around}\n{text}\n{around}")
    assert block.is_certificate
    assert block.der() == data
    (again,) = pem_blocks(block.text())
    assert again.der() == data


def test_blocks_come_in_their_order_with_what_they_are() -> None:
    text = "".join(
        f"-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n"
        for label in ("EC PARAMETERS", "ENCRYPTED PRIVATE KEY", "EC PRIVATE KEY", "CERTIFICATE")
    )
    blocks = pem_blocks(text)
    assert [each.is_private_key for each in blocks] == [False, True, True, False]
    assert [each.is_encrypted for each in blocks] == [False, True, False, False]
    assert [each.is_certificate for each in blocks] == [False, False, False, True]


def test_a_key_that_openssl_encrypted_keeps_its_headers() -> None:
    headers = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA"
    text = f"-----BEGIN RSA PRIVATE KEY-----\n{headers}\n-----END RSA PRIVATE KEY-----\n"
    (block,) = pem_blocks(text)
    assert block.is_encrypted
    assert block.text() == text


@pytest.mark.parametrize("body", ["A", "====", "A$==", "-AAAA", "AAAé"])
def test_damaged_base64_is_told(body: str) -> None:
    (block,) = pem_blocks(f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----")
    with pytest.raises(ValueError, match="base64"):
        block.der()


@given(st.text(alphabet="-BEGIN ED\nCRTFAKY"))
def test_no_text_ends_in_anything_but_blocks(text: str) -> None:
    assert len(pem_blocks(text)) <= text.count("BEGIN")


def test_no_key_is_in_a_repr() -> None:
    (block,) = pem_blocks("-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----")
    assert "hunter2" not in repr(block)
