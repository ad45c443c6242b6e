"""Requests with permits over real sockets, on both event loops, in plain text and under TLS: none arrives whole that is
not permitted any more."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvloop

from heliograph.cluster.connection import Connection
from heliograph.cluster.open_connection import open_connection
from heliograph.model.errors import Disconnected, RequestTimedOut

from .peers import answer, peer, properties_for
from .security.tls_ends import TlsEnds

API_KEY, VERSION = 18, 0
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
WAYS = [(loop, ends) for loop in LOOPS for ends in (None, TlsEnds.made())]
Way = tuple[str, TlsEnds | None]
on_all_ways = pytest.mark.parametrize(
    "way", WAYS, ids=[loop if ends is None else f"{loop}, TLS" for loop, ends in WAYS]
)
LARGE = 4 << 20
FRAME_BYTES = 14 + len("heliograph")  # size, header and client id


class SlowPeer:
    """Reads a little at a time, or nothing until it is told to; answers each request with its body's first byte."""

    def __init__(self) -> None:
        self.received_bytes = 0
        self.bodies: list[bytes] = []
        self.reads = asyncio.Event()
        self.ended = asyncio.Event()

    async def behave(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received = bytearray()
        try:
            await self.reads.wait()
            while data := await reader.read(1 << 16):
                self.received_bytes += len(data)
                received += data
                self._answer_whole(received, writer)
                await asyncio.sleep(0)
        finally:
            self.ended.set()

    def _answer_whole(self, received: bytearray, writer: asyncio.StreamWriter) -> None:
        while len(received) >= 4 and len(received) >= 4 + (size := int.from_bytes(received[:4], "big")):
            _, _, correlation_id, name_bytes = struct.unpack_from(">hhih", received, 4)
            body = bytes(received[14 + name_bytes : 4 + size])
            self.bodies.append(body[:1])
            writer.write(answer(correlation_id, body[:1]))
            del received[: 4 + size]


@dataclass(slots=True)
class Permitted:
    """A connection, and what its permits saw."""

    connection: Connection
    peer: SlowPeer
    sizes: list[int] = field(default_factory=list)  # what the transport held when a permit was asked for

    def ask(
        self, body: bytes, allowed: Callable[[], bool] = lambda: True, *, timeout_ms: int = 5000
    ) -> asyncio.Future[memoryview]:
        def permit() -> bool:
            self.sizes.append(self.buffered_bytes)
            return allowed()

        half = len(body) // 2
        parts: list[bytes | memoryview] = [body[:half], memoryview(bytearray(body[half:]))]
        return self.connection.request(
            API_KEY, VERSION, parts, flexible=False, timeout_ms=timeout_ms, permit=permit
        )

    @property
    def buffered_bytes(self) -> int:
        transport = self.connection._transport
        return transport.get_write_buffer_size() if transport is not None else 0


def tell(
    way: Way, story: Callable[[Permitted], Awaitable[None]], *, send_buffer_bytes: int = 1 << 16
) -> None:
    """Run a story on this kind of event loop, with TLS or without; none of its callbacks may fail."""
    loop, ends = way
    problems: list[dict[str, Any]] = []

    async def begin() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        slow = SlowPeer()
        async with peer(slow.behave, ends.server if ends else None) as port:
            chosen = properties_for(port, send_buffer_bytes=send_buffer_bytes)
            tls = ends.stream() if ends else None
            connection = await open_connection("127.0.0.1", port, chosen, tls=tls)
            async with asyncio.timeout(10):
                await story(Permitted(connection, slow))
            connection.close()
            await asyncio.sleep(0.05)

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(begin())
    assert problems == []


@on_all_ways
def test_a_request_with_a_permit_is_answered_like_any_other(way: Way) -> None:
    async def story(it: Permitted) -> None:
        it.peer.reads.set()
        assert bytes(await it.ask(b"a small one")) == b"a"
        assert it.sizes == [0]

    tell(way, story)


@on_all_ways
def test_the_last_byte_waits_until_all_others_are_with_the_kernel(way: Way) -> None:
    async def story(it: Permitted) -> None:
        answered = it.ask(b"x" * LARGE)
        await asyncio.sleep(0.05)
        assert it.buffered_bytes > 0
        assert it.sizes == [0]  # asked before the first byte left, and not since
        it.peer.reads.set()
        assert bytes(await answered) == b"x"
        assert it.sizes == [0, 0]

    tell(way, story)


@on_all_ways
def test_requests_with_permits_leave_in_order_each_with_its_own(way: Way) -> None:
    async def story(it: Permitted) -> None:
        bodies = [b"a" * LARGE, b"b", b"c" * LARGE, b"d", b"e"]
        answers = [it.ask(body) for body in bodies]
        it.peer.reads.set()
        assert [bytes(await answered) for answered in answers] == [b"a", b"b", b"c", b"d", b"e"]
        assert set(it.sizes) == {0}
        assert len(it.sizes) >= 5

    tell(way, story)


@on_all_ways
@pytest.mark.parametrize("size", [1, 2, LARGE])
def test_nothing_arrives_of_a_request_that_is_not_permitted_and_the_connection_ends(
    way: Way, size: int
) -> None:
    async def story(it: Permitted) -> None:
        refused = it.ask(b"x" * size, lambda: False)
        behind = it.ask(b"y")
        it.peer.reads.set()
        for waiting in (refused, behind):
            with pytest.raises(Disconnected, match="permitted"):
                await waiting
        assert it.connection.closed
        assert len(it.sizes) == 1
        await it.peer.ended.wait()
        assert it.peer.received_bytes == 0

    tell(way, story)


@on_all_ways
def test_a_permit_that_is_withdrawn_while_the_peer_reads_slowly_counts(way: Way) -> None:
    async def story(it: Permitted) -> None:
        allowed = True
        first, second = it.ask(b"a" * LARGE, lambda: allowed), it.ask(b"b" * LARGE, lambda: allowed)

        def withdraw(_: asyncio.Future[memoryview]) -> None:
            nonlocal allowed
            allowed = False

        first.add_done_callback(withdraw)
        it.peer.reads.set()
        assert bytes(await first) == b"a"
        with pytest.raises(Disconnected, match="permitted"):
            await second
        await it.peer.ended.wait()
        assert it.peer.bodies == [b"a"]

    tell(way, story)


@on_all_ways
def test_a_permit_that_is_withdrawn_while_a_request_is_stuck_half_way_leaves_it_incomplete(way: Way) -> None:
    async def story(it: Permitted) -> None:
        allowed = True
        stuck = it.ask(b"a" * LARGE, lambda: allowed)
        behind = [it.ask(b"b", lambda: allowed), it.ask(b"c" * LARGE, lambda: allowed)]
        await asyncio.sleep(0.05)
        allowed = False
        it.peer.reads.set()
        for waiting in (stuck, *behind):
            with pytest.raises(Disconnected, match="permitted"):
                await waiting
        assert it.sizes == [0, 0]
        await it.peer.ended.wait()
        assert it.peer.bodies == []
        # A reset may take what was on its way with it; but some of it did arrive.
        assert 0 < it.peer.received_bytes < LARGE + FRAME_BYTES

    tell(way, story)


@on_all_ways
def test_closing_a_connection_throws_away_what_has_not_left(way: Way) -> None:
    async def story(it: Permitted) -> None:
        waiting = it.ask(b"x" * LARGE)
        await asyncio.sleep(0.05)
        it.connection.close(Disconnected("the lease ran out"))
        with pytest.raises(Disconnected, match="lease"):
            await waiting
        it.peer.reads.set()
        await it.peer.ended.wait()
        assert it.peer.bodies == []
        assert it.sizes == [0]

    tell(way, story)


@on_all_ways
def test_a_kernel_that_is_full_is_waited_for_and_the_last_byte_is_not_left_to_the_transport(
    way: Way,
) -> None:
    """With the smallest buffers there is no room for one more byte when the last but one has found its place."""

    async def story(it: Permitted) -> None:
        answers = [it.ask(b"%d" % n * 100_000) for n in range(5)]
        it.peer.reads.set()
        assert [bytes(await answered) for answered in answers] == [b"%d" % n for n in range(5)]
        assert set(it.sizes) == {0}

    tell(way, story, send_buffer_bytes=4096)


@on_all_ways
def test_a_request_that_is_held_back_and_one_behind_it_have_their_deadline_too(way: Way) -> None:
    async def story(it: Permitted) -> None:
        held, behind = it.ask(b"x" * LARGE), it.ask(b"y", timeout_ms=100)
        for waiting in (held, behind):
            with pytest.raises(RequestTimedOut):
                await waiting
        assert it.sizes == [0]
        it.peer.reads.set()
        await it.peer.ended.wait()
        assert it.peer.bodies == []

    tell(way, story)


@on_all_ways
def test_a_request_of_thousands_of_buffers_arrives_whole(way: Way) -> None:
    async def story(it: Permitted) -> None:
        parts = [b"x" * (n % 300) for n in range(5000)]
        answers = [
            it.connection.request(
                API_KEY, VERSION, parts, flexible=False, timeout_ms=5000, permit=lambda: True
            )
            for _ in range(3)
        ]
        it.peer.reads.set()
        assert [bytes(await answered) for answered in answers] == [b"x"] * 3

    tell(way, story)


@on_all_ways
def test_requests_without_a_permit_keep_their_place_among_those_with_one(way: Way) -> None:
    async def story(it: Permitted) -> None:
        def free(body: bytes) -> asyncio.Future[memoryview]:
            return it.connection.request(API_KEY, VERSION, [body], flexible=False, timeout_ms=5000)

        answers = [free(b"a" * LARGE), it.ask(b"b" * LARGE), free(b"c"), it.ask(b"d")]
        it.peer.reads.set()
        assert [bytes(await answered) for answered in answers] == [b"a", b"b", b"c", b"d"]
        assert set(it.sizes) == {0}

    tell(way, story)


@on_all_ways
def test_a_peer_that_has_left_fails_the_next_request_and_those_that_wait(way: Way) -> None:
    """The reset is seen by our own system call, before the event loop has looked at the socket."""

    async def story(it: Permitted) -> None:
        it.peer.reads.set()
        assert bytes(await it.ask(b"a")) == b"a"
        waiting = it.ask(b"b" * LARGE)
        it.connection._sock.shutdown(socket.SHUT_RDWR)
        for asked in (it.ask(b"c"), waiting):
            with pytest.raises(Disconnected, match=it.connection.address):
                await asked
        assert it.connection.closed

    tell(way, story)


@on_all_ways
def test_the_socket_of_a_closed_connection_can_not_be_mistaken_for_another(way: Way) -> None:
    """Its number is free for the next one: bytes sent by number could end up there."""

    async def story(it: Permitted) -> None:
        it.connection.close()
        async with asyncio.timeout(1):
            while it.connection._sock.fileno() >= 0:  # noqa: ASYNC110 - a socket sets no event
                await asyncio.sleep(0.001)
        with pytest.raises(OSError, match="Bad file descriptor"):
            it.connection._sock.sendmsg([b"late"])

    tell(way, story)
