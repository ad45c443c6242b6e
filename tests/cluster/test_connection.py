"""One connection against peers that misbehave: every request ends, in time, in a typed error with the address."""

from __future__ import annotations

import asyncio
import socket
import struct
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.cluster.connection import Connection
from heliograph.cluster.open_connection import open_connection
from heliograph.model.errors import Disconnected, HeliographError, ProtocolError, RequestTimedOut

from .peers import (
    Behaviour,
    always_say,
    answer,
    close_at_once,
    echo,
    never_answer,
    peer,
    properties_for,
    read_request,
    reset,
    speak_unasked,
)

API_KEY, VERSION = 18, 0
BOUND_S = 2.0


def ask(connection: Connection, body: bytes = b"", timeout_ms: int = 300) -> asyncio.Future[memoryview]:
    return connection.request(API_KEY, VERSION, [body], flexible=False, timeout_ms=timeout_ms)


async def failures_of(behaviour: Behaviour, requests: int = 3) -> list[HeliographError]:
    """What each of these requests, sent together, ended in; the connection must be closed after it."""
    async with peer(behaviour) as port:
        connection = await open_connection("127.0.0.1", port, properties_for(port))
        asked = [ask(connection) for _ in range(requests)]
        async with asyncio.timeout(BOUND_S):
            ended = await asyncio.gather(*asked, return_exceptions=True)
        assert connection.closed
        assert connection.waiting == 0
        found = [problem for problem in ended if isinstance(problem, HeliographError)]
        assert len(found) == requests
        for problem in found:
            assert f"127.0.0.1:{port}" in problem.message
        return found


async def test_a_peer_that_never_answers_times_out_for_all_that_wait() -> None:
    assert all(isinstance(problem, RequestTimedOut) for problem in await failures_of(never_answer))


@pytest.mark.parametrize("behaviour", [close_at_once, reset])
async def test_a_peer_that_leaves_disconnects_all_that_wait(behaviour: Behaviour) -> None:
    assert all(isinstance(problem, Disconnected) for problem in await failures_of(behaviour))


async def test_a_peer_that_speaks_http_is_told_as_such() -> None:
    (problem,) = await failures_of(always_say(b"HTTP/1.1 400 Bad Request\r\n\r\n"), requests=1)
    assert isinstance(problem, ProtocolError)
    assert "HTTP" in problem.message
    assert problem.hint


async def test_a_peer_that_speaks_tls_is_told_as_such() -> None:
    (problem,) = await failures_of(always_say(b"\x15\x03\x01\x00\x02\x02\x0a"), requests=1)
    assert isinstance(problem, ProtocolError)
    assert "TLS" in problem.message


async def test_a_frame_too_large_for_any_answer_is_refused_and_not_awaited() -> None:
    problems = await failures_of(always_say(struct.pack(">i", 2**31 - 1)))
    assert all(isinstance(problem, ProtocolError) for problem in problems)


@pytest.mark.parametrize("size", [-1, 0, 3, -(2**31)])
async def test_a_frame_of_impossible_size_is_refused(size: int) -> None:
    assert isinstance((await failures_of(always_say(struct.pack(">i", size))))[0], ProtocolError)


async def test_an_answer_to_something_else_fails_everything_that_waits() -> None:
    problems = await failures_of(always_say(answer(4711, b"")))
    assert all(isinstance(problem, ProtocolError) for problem in problems)


async def test_an_answer_out_of_order_fails_everything_that_waits() -> None:
    assert isinstance((await failures_of(always_say(answer(2, b""))))[0], ProtocolError)


async def test_an_answer_nobody_asked_for_closes_the_connection() -> None:
    async with peer(speak_unasked) as port:
        connection = await open_connection("127.0.0.1", port, properties_for(port))
        async with asyncio.timeout(BOUND_S):
            while not connection.closed:  # noqa: ASYNC110 - a connection sets no event
                await asyncio.sleep(0.01)
        with pytest.raises(ProtocolError, match=f"127.0.0.1:{port}"):
            await ask(connection)


async def test_half_an_answer_times_out() -> None:
    problems = await failures_of(always_say(answer(1, b"x" * 100)[:50]), requests=1)
    assert isinstance(problems[0], RequestTimedOut)


@settings(deadline=None, max_examples=25)
@given(garbage=st.binary(min_size=1, max_size=40))
def test_garbage_ends_in_a_typed_error_in_time(garbage: bytes) -> None:
    async def story() -> None:
        async with peer(always_say(garbage)) as port:
            connection = await open_connection("127.0.0.1", port, properties_for(port))
            async with asyncio.timeout(BOUND_S):
                ended = await asyncio.gather(
                    *(ask(connection, timeout_ms=50) for _ in range(2)), return_exceptions=True
                )
            for result in ended:
                assert isinstance(result, HeliographError | memoryview)
            connection.close()

    asyncio.run(story())


async def test_a_late_answer_closes_the_connection_and_is_never_taken_for_another() -> None:
    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, _, correlation_id, _ = await read_request(reader)
        await asyncio.sleep(0.3)
        writer.write(answer(correlation_id, b"late"))
        await never_answer(reader, writer)

    async with peer(late) as port:
        connection = await open_connection("127.0.0.1", port, properties_for(port))
        first, second = ask(connection, timeout_ms=100), ask(connection, timeout_ms=5000)
        for waiting in (first, second):
            with pytest.raises(RequestTimedOut, match=f"127.0.0.1:{port}"):
                await asyncio.wait_for(waiting, BOUND_S)
        await asyncio.sleep(0.4)
        with pytest.raises(RequestTimedOut):
            await ask(connection)


async def test_a_request_keeps_its_own_deadline_after_one_with_a_longer_was_answered() -> None:
    async def answers_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, _, correlation_id, _ = await read_request(reader)
        writer.write(answer(correlation_id, b""))
        await never_answer(reader, writer)

    async with peer(answers_once) as port:
        connection = await open_connection("127.0.0.1", port, properties_for(port))
        await ask(connection, timeout_ms=1500)
        begun = time.monotonic()
        with pytest.raises(RequestTimedOut):
            await ask(connection, timeout_ms=100)
        assert time.monotonic() - begun < 1.0


async def test_answers_arrive_in_order_however_they_are_cut() -> None:
    async def dribble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pending = b""
        for _ in range(20):
            _, _, correlation_id, body = await read_request(reader)
            pending += answer(correlation_id, body)
        for at in range(0, len(pending), 7):
            writer.write(pending[at : at + 7])
            await writer.drain()
            await asyncio.sleep(0)
        await never_answer(reader, writer)

    async with peer(dribble) as port:
        connection = await open_connection("127.0.0.1", port, properties_for(port))
        asked = [ask(connection, b"body %d" % n, timeout_ms=5000) for n in range(20)]
        answers = await asyncio.wait_for(asyncio.gather(*asked), BOUND_S)
        assert [bytes(body) for body in answers] == [b"body %d" % n for n in range(20)]
        assert connection.waiting == 0
        connection.close()


async def test_an_answers_bytes_are_the_callers_own_and_writable() -> None:
    async with peer(echo) as port:
        connection = await open_connection("127.0.0.1", port, properties_for(port))
        first = await ask(connection, b"first")
        second = await ask(connection, b"other")
        first[0] = ord("F")
        assert (bytes(first), bytes(second)) == (b"First", b"other")
        connection.close()


async def test_a_large_answer_within_the_limit_is_received_whole() -> None:
    large = bytes(range(256)) * 40_000

    async with peer(echo) as port:
        connection = await open_connection("127.0.0.1", port, properties_for(port))
        assert bytes(await ask(connection, large, timeout_ms=5000)) == large
        connection.close()


async def test_who_gives_up_waiting_does_not_disturb_the_next() -> None:
    async with peer(echo) as port:
        connection = await open_connection("127.0.0.1", port, properties_for(port))
        given_up, kept = ask(connection, b"given up"), ask(connection, b"kept")
        given_up.cancel()
        assert bytes(await kept) == b"kept"
        connection.close()


async def test_closing_fails_all_that_wait_and_every_request_after() -> None:
    async with peer(never_answer) as port:
        connection = await open_connection("127.0.0.1", port, properties_for(port))
        waiting = ask(connection)
        connection.close()
        connection.close()
        for asked in (waiting, ask(connection)):
            with pytest.raises(Disconnected, match=f"127.0.0.1:{port}"):
                await asked


async def test_nobody_listening_is_disconnected_with_the_address() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(Disconnected, match=f"127.0.0.1:{port} cannot be reached"):
            await open_connection("127.0.0.1", port, properties_for(port))


async def test_a_name_that_resolves_to_nothing_is_disconnected_with_the_address() -> None:
    with pytest.raises(Disconnected, match=r"no-such-host.invalid:9092"):
        await open_connection("no-such-host.invalid", 9092, properties_for(9092))


@pytest.mark.parametrize("unacknowledged_ms", [0, 5000])
async def test_a_socket_keeps_nothing_for_later(unacknowledged_ms: int) -> None:
    """What was not sent when it is closed is thrown away; what the peer does not take is given up in time."""

    async with peer(echo) as port:
        connection = await open_connection(
            "127.0.0.1", port, properties_for(port), unacknowledged_ms=unacknowledged_ms
        )
        assert connection._transport is not None
        sock = connection._transport.get_extra_info("socket")
        linger = struct.unpack("ii", sock.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8))
        assert linger == (1, 0)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == unacknowledged_ms
        connection.close()
