"""Frames and headers, and peers that are not Kafka."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer.fetch import FetchRequest, FetchResponse
from kafka.protocol.producer.produce import ProduceRequest

from heliograph.model.errors import ProtocolError
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.frame import decode_response_header, encode_request_header, frame_size

LIMIT = 100 * 1024 * 1024
int32s = st.integers(-(2**31), 2**31 - 1)


@given(correlation_id=int32s, client_id=st.none() | st.text(max_size=300), version=st.integers(4, 12))
def test_fetch_headers_are_the_bytes_that_kafka_python_sends(
    correlation_id: int, client_id: str | None, version: int
) -> None:
    request = FetchRequest(version=version)
    request.with_header(correlation_id=correlation_id, client_id=client_id)
    flexible = version >= 12
    ours = encode_request_header(ApiKey.FETCH, version, correlation_id, client_id, flexible=flexible)
    assert ours == bytes(request.encode_header(flexible=flexible))


@given(correlation_id=int32s, client_id=st.none() | st.text(max_size=300), version=st.integers(3, 9))
def test_produce_headers_are_the_bytes_that_kafka_python_sends(
    correlation_id: int, client_id: str | None, version: int
) -> None:
    request = ProduceRequest(version=version)
    request.with_header(correlation_id=correlation_id, client_id=client_id)
    flexible = version >= 9
    ours = encode_request_header(ApiKey.PRODUCE, version, correlation_id, client_id, flexible=flexible)
    assert ours == bytes(request.encode_header(flexible=flexible))


@given(correlation_id=int32s, rest=st.binary(max_size=20), flexible=st.booleans())
def test_response_headers_are_read_as_kafka_python_writes_them(
    correlation_id: int, rest: bytes, flexible: bool
) -> None:
    answer = FetchResponse()
    answer.with_header(correlation_id=correlation_id)
    body = memoryview(bytes(answer.encode_header(flexible=flexible)) + rest)
    got_id, got_rest = decode_response_header(body, flexible=flexible)
    assert (got_id, bytes(got_rest)) == (correlation_id, rest)
    assert got_rest.obj is body.obj


@given(data=st.binary(max_size=30), flexible=st.booleans())
def test_random_bytes_for_a_response_header_are_refused_or_read(data: bytes, flexible: bool) -> None:
    try:
        _, rest = decode_response_header(memoryview(data), flexible=flexible)
    except ProtocolError:
        return
    assert len(rest) <= len(data) - 4


@given(size=st.integers(4, LIMIT))
def test_a_size_within_the_limit_is_taken(size: int) -> None:
    assert frame_size(struct.pack(">i", size), LIMIT) == size
    assert frame_size(memoryview(struct.pack(">i", size)), LIMIT) == size


@given(size=st.integers(-(2**31), 3) | st.integers(LIMIT + 1, 2**31 - 1))
def test_a_size_that_no_answer_can_have_is_refused(size: int) -> None:
    with pytest.raises(ProtocolError):
        frame_size(struct.pack(">i", size), LIMIT)


@pytest.mark.parametrize("limit", [LIMIT, 2**31 - 1])
def test_a_web_servers_answer_is_named(limit: int) -> None:
    answer = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
    with pytest.raises(ProtocolError, match="the peer speaks HTTP, not Kafka") as refusal:
        frame_size(answer[:4], limit)
    assert refusal.value.hint


@pytest.mark.parametrize(
    "record", [b"\x15\x03\x03\x00\x02\x02\x46", b"\x15\x03\x01\x00", b"\x16\x03\x03\x00\x7a"]
)
@pytest.mark.parametrize("limit", [LIMIT, 2**31 - 1])
def test_a_tls_listener_is_named(record: bytes, limit: int) -> None:
    with pytest.raises(ProtocolError, match="TLS") as refusal:
        frame_size(record[:4], limit)
    assert refusal.value.hint


@pytest.mark.parametrize("prefix", [b"", b"\0\0\1", b"\0\0\0\0\1"])
def test_a_prefix_of_another_length_is_refused(prefix: bytes) -> None:
    with pytest.raises(ProtocolError, match="size prefix"):
        frame_size(prefix, LIMIT)
