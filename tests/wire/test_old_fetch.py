"""Fetch before version 4, against bytes written by hand."""

from __future__ import annotations

import struct

import pytest

from heliograph.wire.cut_message import whole_bytes
from heliograph.wire.fetch import FetchedPartition, FetchReply, FetchWant, decode_fetch
from heliograph.wire.fetch_request import FetchAsk, encode_fetch

ASK = FetchAsk([FetchWant("orders", 3, 0x1122, 0x4000, leader_epoch=7, last_fetched_epoch=6)], [])
TOPIC = bytes.fromhex("00000001") + b"\x00\x06orders" + bytes.fromhex("00000001")
WANT = bytes.fromhex("00000003 0000000000001122 00004000")
HEAD = bytes.fromhex("ffffffff 000001f4 00000001")  # consumer, wait 500 ms, at least one byte
MAX_BYTES = bytes.fromhex("00100000")


def encoded(version: int) -> bytes:
    return encode_fetch(version, ASK, max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, read_committed=True)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_first_versions_ask_without_a_limit_for_all(version: int) -> None:
    assert encoded(version) == HEAD + TOPIC + WANT


def test_version_3_adds_a_limit_and_no_isolation() -> None:
    assert encoded(3) == HEAD + MAX_BYTES + TOPIC + WANT


def test_version_4_adds_the_isolation() -> None:
    assert encoded(4) == HEAD + MAX_BYTES + b"\x01" + TOPIC + WANT


# partition 3, no error, high watermark 42, five bytes of records
ANSWER = TOPIC + bytes.fromhex("00000003 0000 000000000000002a 00000005") + b"bytes"
PARTITION = FetchedPartition("orders", 3, 0, 42, -1, -1, -1, memoryview(b"bytes"), None, None)


@pytest.mark.parametrize(
    ("version", "head", "throttle_ms"),
    [(0, "", 0), (1, "00000009", 9), (2, "00000009", 9), (3, "00000009", 9)],
)
def test_an_old_answer_tells_the_high_watermark_and_nothing_of_transactions(
    version: int, head: str, throttle_ms: int
) -> None:
    reply = decode_fetch(version, memoryview(bytes.fromhex(head) + ANSWER))
    assert reply == FetchReply(throttle_ms, 0, [PARTITION], compares_epochs=False)


def test_an_old_answer_may_hold_an_error_and_no_records() -> None:
    body = TOPIC + bytes.fromhex("00000003 0001 ffffffffffffffff 00000000")  # OFFSET_OUT_OF_RANGE
    [partition] = decode_fetch(0, memoryview(body)).partitions
    assert (partition.error, partition.high_watermark, bytes(partition.records)) == (1, -1, b"")


def message(size_bytes: int) -> bytes:
    """Offset 5, its size, and as many bytes."""
    return struct.pack(">qi", 5, size_bytes) + b"m" * size_bytes


def test_a_cut_first_message_says_how_large_it_is() -> None:
    whole = message(100)
    assert whole_bytes(memoryview(whole)) is None
    assert whole_bytes(memoryview(whole + message(100)[:50])) is None
    assert whole_bytes(memoryview(whole[:-1])) == 112
    assert whole_bytes(memoryview(whole[:12])) == 112
    assert whole_bytes(memoryview(whole[:11])) == 13
    assert whole_bytes(memoryview(b"")) is None
