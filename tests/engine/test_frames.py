"""The control line's bytes: frames survive, and anything else is a ProtocolError."""

from __future__ import annotations

import asyncio
import contextlib
import errno

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.engine.frames import FRAME_LIMIT, framed, json_object, read
from heliograph.model.errors import Disconnected, ProtocolError

bodies = st.binary(max_size=50)


def read_from(data: bytes, limit: int = FRAME_LIMIT) -> list[bytes | None]:
    """Every frame in these bytes, to the end of the line."""

    async def story() -> list[bytes | None]:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        found: list[bytes | None] = []
        while not found or found[-1] is not None:
            found.append(await read(reader, limit))
        return found

    return asyncio.run(story())


@settings(deadline=None, max_examples=50)
@given(sent=st.lists(bodies, max_size=4))
def test_what_is_sent_is_what_is_read(sent: list[bytes]) -> None:
    assert read_from(b"".join(map(framed, sent))) == [*sent, None]


@settings(deadline=None, max_examples=50)
@given(sent=bodies, cut=st.integers(0, 1000))
def test_a_frame_that_is_cut_is_the_end_of_the_line(sent: bytes, cut: int) -> None:
    frame = framed(sent)
    assert read_from(frame[: cut % len(frame)]) == [None]


async def read_after(code: int) -> bytes | None:
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
        read_from((100 + 1).to_bytes(4, "big"), 100)


def test_nothing_over_the_limit_is_ever_sent() -> None:
    with pytest.raises(ProtocolError, match="over the limit"):
        framed(b"x" * (FRAME_LIMIT + 1))


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"nonsense", b"1", b"[]", b"null", b'"text"'])
def test_a_body_that_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        json_object(body)


@pytest.mark.parametrize("depth", [1_000, 100_000])
def test_a_body_nested_beyond_reason_is_refused(depth: int) -> None:
    with pytest.raises(ProtocolError):
        json_object(b"[" * depth)


@settings(deadline=None, max_examples=100)
@given(data=st.binary(max_size=60))
def test_any_bytes_are_frames_or_a_protocol_error(data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        read_from(data, 100)
