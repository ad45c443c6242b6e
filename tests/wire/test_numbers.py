"""Error codes and API keys against the numbers kafka-python knows."""

from __future__ import annotations

import kafka.errors
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.api_key import ApiKey as PeerApiKey

from heliograph.wire.api_keys import ApiKey
from heliograph.wire.error_codes import ErrorCode

# Kafka renamed them, or has always called them otherwise than kafka-python.
NAMED_OTHERWISE = {-1, 0, 6, 10, 17, 39}


def test_every_error_that_kafka_python_knows_has_the_same_name() -> None:
    peers = [value for value in vars(kafka.errors).values() if isinstance(getattr(value, "errno", None), int)]
    assert len(peers) > 100
    for peer in peers:
        if peer.errno not in NAMED_OTHERWISE:
            assert ErrorCode.name_of(peer.errno) == peer.message


@given(code=st.integers(-(2**15), 2**15 - 1))
def test_every_code_has_a_name(code: int) -> None:
    assert ErrorCode.name_of(code)


def test_a_code_of_a_newer_broker_keeps_its_number() -> None:
    assert ErrorCode.name_of(1234) == "UNKNOWN_CODE_1234"
    assert ErrorCode.name_of(45) == "OUT_OF_ORDER_SEQUENCE_NUMBER"


@pytest.mark.parametrize("code", [3, 5, 6, 7, 19, 20, 56, 74, 75, 78])
def test_what_passes_by_itself_is_retriable(code: int) -> None:
    assert ErrorCode(code).retriable


@pytest.mark.parametrize("code", [-1, 0, 1, 10, 18, 29, 32, 35, 45, 47, 59, 76, 87])
def test_what_needs_another_way_is_not_retriable(code: int) -> None:
    assert not ErrorCode(code).retriable


def test_api_keys_are_kafkas() -> None:
    peers = {key.name.lower(): key.value for key in PeerApiKey}
    for key in ApiKey:
        assert peers[key.name.replace("_", "").lower()] == key.value
