"""The control line's bytes: frames survive, anything else is a ProtocolError, and only the secret proves."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.engine import frames
from heliograph.engine.frames import FRAME_LIMIT, UNPROVEN_LIMIT, Message, encode, new_secret, read
from heliograph.model.errors import Disconnected, ProtocolError

SECRET = b"s" * 32
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
messages = st.dictionaries(st.text(max_size=10), json_values, max_size=5)


def read_from(data: bytes, limit: int = FRAME_LIMIT) -> list[Message | None]:
    """Every frame in these bytes, to the end of the line."""

    async def story() -> list[Message | None]:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        found: list[Message | None] = []
        while not found or found[-1] is not None:
            found.append(await read(reader, limit))
        return found

    return asyncio.run(story())


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


class Wire:
    """The writer's side of a stream that ends in a reader: what the handshake needs of a StreamWriter."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    def write(self, data: bytes) -> None:
        self._reader.feed_data(data)


@settings(deadline=None, max_examples=50)
@given(sent=st.lists(messages, max_size=4))
def test_what_is_sent_is_what_is_read(sent: list[Message]) -> None:
    assert read_from(b"".join(map(encode, sent))) == [*sent, None]


@settings(deadline=None, max_examples=50)
@given(sent=messages, cut=st.integers(0, 1000))
def test_a_frame_that_is_cut_is_the_end_of_the_line(sent: Message, cut: int) -> None:
    frame = encode(sent)
    assert read_from(frame[: cut % len(frame)]) == [None]


async def read_after(code: int) -> Message | None:
    reader = asyncio.StreamReader()
    reader.set_exception(OSError(code, "what the system says"))
    return await read(reader)


@pytest.mark.parametrize("code", [errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED])
async def test_a_line_that_its_peer_broke_has_ended(code: int) -> None:
    assert await read_after(code) is None


@pytest.mark.parametrize("code", [errno.EHOSTUNREACH, errno.ETIMEDOUT, errno.ENETDOWN])
async def test_a_network_that_was_cut_is_told_apart_from_a_peer_that_ended(code: int) -> None:
    """The peer may live, and go on for a while."""
    with pytest.raises(Disconnected, match=r"the network was cut: .*what the system says"):
        await read_after(code)


def test_a_frame_over_the_limit_is_refused_before_it_is_received() -> None:
    with pytest.raises(ProtocolError, match="over the limit"):
        read_from((FRAME_LIMIT + 1).to_bytes(4, "big"))
    with pytest.raises(ProtocolError, match="over the limit"):
        read_from((UNPROVEN_LIMIT + 1).to_bytes(4, "big"), UNPROVEN_LIMIT)


def test_nothing_over_the_limit_is_ever_sent() -> None:
    with pytest.raises(ProtocolError, match="over the limit"):
        encode({"text": "x" * FRAME_LIMIT})


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"nonsense", b"1", b"[]", b"null", b'"text"'])
def test_a_frame_that_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_from(framed(body))


@pytest.mark.parametrize("depth", [UNPROVEN_LIMIT, 100_000])
def test_a_frame_nested_beyond_reason_is_refused(depth: int) -> None:
    with pytest.raises(ProtocolError):
        read_from(framed(b"[" * depth))


@settings(deadline=None, max_examples=100)
@given(data=st.binary(max_size=60))
def test_any_bytes_are_frames_or_a_protocol_error(data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        read_from(data, UNPROVEN_LIMIT)


def test_secrets_are_long_and_never_the_same() -> None:
    assert len(new_secret()) == 32
    assert new_secret() != new_secret()


async def handshake(lane_secret: bytes, driver_secret: bytes, lane: int = 3) -> list[Any]:
    """Both sides against each other; what each returned or raised: [driver's, lane's]."""
    to_driver, to_lane = asyncio.StreamReader(), asyncio.StreamReader()

    async def driver() -> int:
        try:
            return await frames.prove_as_driver(to_driver, Wire(to_lane), driver_secret)  # type: ignore[arg-type]
        finally:
            to_lane.feed_eof()

    async def the_lane() -> None:
        try:
            await frames.prove_as_lane(to_lane, Wire(to_driver), lane_secret, lane)  # type: ignore[arg-type]
        finally:
            to_driver.feed_eof()

    return list(await asyncio.gather(driver(), the_lane(), return_exceptions=True))


async def test_both_sides_of_one_run_prove_themselves() -> None:
    assert await handshake(SECRET, SECRET) == [3, None]


async def test_a_lane_with_another_secret_is_refused_and_learns_nothing() -> None:
    for_driver, for_lane = await handshake(b"x" * 32, SECRET)
    assert isinstance(for_driver, ProtocolError)
    assert isinstance(for_lane, ProtocolError)


async def driver_meets(answer: bytes) -> None:
    """The driver's side of the handshake against a peer that answers with these bytes."""
    reader = asyncio.StreamReader()
    reader.feed_data(answer)
    reader.feed_eof()
    await frames.prove_as_driver(reader, Wire(asyncio.StreamReader()), SECRET)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"challenge": "c", "lane": 1},
        {"proof": "p", "lane": 1},
        {"challenge": 1, "proof": 2, "lane": 1},
        {"challenge": "c", "proof": "", "lane": 1},
        {"challenge": "c", "proof": "0" * 64, "lane": 1},
        {"challenge": "c", "proof": "é", "lane": 1},
        {"challenge": "\ud800", "proof": "0" * 64, "lane": 1},
        {"type": "progress", "partitions": []},
    ],
)
async def test_whoever_proves_nothing_is_a_protocol_error_to_the_driver(answer: Message) -> None:
    with pytest.raises(ProtocolError):
        await driver_meets(encode(answer))


async def test_a_peer_that_closes_at_once_is_a_protocol_error_to_the_driver() -> None:
    with pytest.raises(ProtocolError):
        await driver_meets(b"")


async def test_an_unproven_peer_cannot_send_a_large_frame() -> None:
    with pytest.raises(ProtocolError, match="over the limit"):
        await driver_meets(framed(json.dumps({"challenge": "c" * UNPROVEN_LIMIT}).encode()))


async def test_a_proof_cannot_be_replayed_against_another_challenge() -> None:
    """The lane's own proof, sent back by a driver without the secret, does not prove the driver."""

    to_lane, to_driver = asyncio.StreamReader(), asyncio.StreamReader()
    proving = asyncio.create_task(
        frames.prove_as_lane(to_lane, Wire(to_driver), SECRET, 1)  # type: ignore[arg-type]
    )
    to_lane.feed_data(encode({"challenge": "ab"}))
    answer = await read(to_driver)
    assert answer is not None
    to_lane.feed_data(encode({"proof": answer["proof"]}))
    with pytest.raises(ProtocolError, match="could not prove"):
        await proving
