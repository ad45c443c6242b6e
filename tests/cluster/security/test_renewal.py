"""Who we are is proven again before a session ends: what waits for that, what must not leave, and what ends with it."""

from __future__ import annotations

import asyncio
import itertools
import socket
import struct

import pytest

from heliograph.cluster.connection import Connection
from heliograph.model.errors import (
    AuthenticationFailed,
    Disconnected,
    HeliographError,
    RequestTimedOut,
    SecurityFailed,
)
from heliograph.wire.api_keys import ApiKey

from .sasl_door import ask, door, until
from .sasl_peer import OTHER_API, SaslPeer, refuse

LARGE_BYTES = 2_000_000
LIMIT_S = 0.5


def others(broker: SaslPeer) -> int:
    """How many requests came that were not about SASL."""
    return sum(api_key == OTHER_API for api_key, _ in broker.seen)


async def end_of(answered: asyncio.Future[memoryview]) -> HeliographError:
    with pytest.raises(HeliographError) as raised:
        await answered
    return raised.value


# -- what is held back, and what is behind


class SlowPeer(SaslPeer):
    """Takes large requests a little at a time: whoever sends them must hold some of them back, nearly always."""

    async def behave(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 17)
        await super().behave(reader, writer)

    async def read(self, reader: asyncio.StreamReader) -> tuple[int, int, int, bytes]:
        (size_bytes,) = struct.unpack(">i", await reader.readexactly(4))
        frame = bytearray()
        while len(frame) < size_bytes:
            frame += await reader.readexactly(min(1 << 18, size_bytes - len(frame)))
            if size_bytes > 1 << 18:
                await asyncio.sleep(0.01)
        api_key, version, correlation_id, name_bytes = struct.unpack_from(">hhih", frame)
        body = bytes(frame[10 + name_bytes :])
        return api_key, version, correlation_id, body[:1] if api_key == OTHER_API else body


async def keep_sending(connection: Connection, at_once: int, held: list[bool]) -> None:
    """So many large requests are on their way at any time, each with a permit."""
    async with asyncio.TaskGroup() as group:
        for number in range(at_once):
            group.create_task(send_on(connection, b"%d" % number, held))


async def send_on(connection: Connection, name: bytes, held: list[bool]) -> None:
    while True:
        answered = ask(connection, name * LARGE_BYTES, permit=lambda: True, timeout_ms=10_000)
        held.append(connection.is_held)
        assert bytes(await answered) == name


async def test_a_session_is_renewed_in_time_on_a_connection_that_always_holds_something_back() -> None:
    broker, held = SlowPeer(lasts_ms=1000), list[bool]()
    async with door(broker) as it:
        connection = await it.open()
        sending = asyncio.create_task(keep_sending(connection, 5, held))
        await asyncio.sleep(4)
        assert not sending.done()
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        connection.close()
    assert len(broker.tokens) >= 1 + 2
    assert sum(held) > len(held) / 2  # it was as slow as it should be
    assert others(broker) > 10


async def test_a_session_is_not_renewed_while_a_request_is_held_back() -> None:
    broker = SaslPeer(lasts_ms=100)
    async with door(broker) as it:
        connection = await it.open()
        assert connection._gate is not None
        connection._gate.push([b""], lambda: True)  # as one whose last byte may not leave yet
        await asyncio.sleep(0.3)
        assert [key for key, _ in broker.seen] == [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE]
        connection.resume_writing()
        await until(lambda: len(broker.tokens) == 2)
        connection.close()


async def test_whoever_waits_to_renew_a_session_hears_that_the_connection_has_ended() -> None:
    broker = SaslPeer(lasts_ms=100)
    async with door(broker) as it:
        connection = await it.open()
        assert connection._gate is not None
        connection._gate.push([b""], lambda: True)
        await asyncio.sleep(0.2)
        connection.close(Disconnected("gone"))
        await until(lambda: not it.locks._tasks)


async def test_what_a_peer_does_not_take_in_time_ends_the_connection_before_the_session_does() -> None:
    broker = SaslPeer(lasts_ms=100)
    async with door(broker) as it:
        connection = await it.open()
        assert connection._gate is not None
        connection._gate.push([b""], lambda: True)
        await asyncio.sleep(0.2)
        behind = ask(connection, b"behind")
        assert isinstance(await end_of(behind), RequestTimedOut)
        assert connection.closed
        assert len(broker.tokens) == 1


async def test_what_waits_behind_has_its_deadline() -> None:
    broker = SaslPeer()
    async with door(broker) as it:
        connection = await it.open()
        async with connection.reserved(LIMIT_S) as line:
            behind = ask(connection, b"behind", timeout_ms=100)
            assert isinstance(await end_of(behind), RequestTimedOut)
            ours = line.request(OTHER_API, 0, [b"ours"], flexible=False, timeout_ms=1000)
            assert isinstance(await end_of(ours), RequestTimedOut)
        assert connection.closed
    assert others(broker) == 0


async def test_the_permit_of_what_waits_behind_is_asked_when_it_leaves() -> None:
    broker, asked = SaslPeer(), list[str]()

    def permit() -> bool:
        asked.append("again")
        return True

    async with door(broker) as it:
        connection = await it.open()
        async with connection.reserved(LIMIT_S):
            first, second = (
                ask(connection, b"first", permit=permit),
                ask(connection, b"second", permit=permit),
            )
            await asyncio.sleep(0.05)
            assert not asked
            assert others(broker) == 0
        assert (bytes(await first), bytes(await second)) == (b"first", b"second")
        connection.close()
    assert asked == ["again"] * 2


# -- what ends with it


async def test_a_connection_that_closes_while_it_is_renewed_fails_what_waits_behind() -> None:
    broker = SaslPeer()
    async with door(broker) as it:
        connection = await it.open()
        async with connection.reserved(LIMIT_S):
            waiting = ask(connection, b"behind")
            connection.close(Disconnected("gone"))
            late = ask(connection, b"later still")
        for answered in (waiting, late):
            with pytest.raises(Disconnected, match="gone"):
                await answered


async def test_nothing_leaves_to_a_broker_that_refuses_us_when_the_session_is_renewed() -> None:
    broker = SaslPeer(lasts_ms=100)
    async with door(broker) as it:
        connection = await it.open()
        broker.judge, broker.delay_s = refuse, 0.05
        await until(lambda: len(broker.tokens) == 2)
        behind = ask(connection, b"behind", permit=lambda: True)
        assert isinstance(await end_of(behind), AuthenticationFailed)
        assert connection.closed
        await asyncio.sleep(0.1)
    assert others(broker) == 0


class Doubting:
    """Takes a broker's word the first time, and never again."""

    def __init__(self, times: itertools.count[int]) -> None:
        self._times = times

    def first(self) -> bytes:
        return b"who are you"

    def next(self, _: bytes) -> bytes | None:
        if next(self._times):
            raise SecurityFailed("the broker has not proven who it is")
        return None

    def refused(self, words: str) -> SecurityFailed:
        return SecurityFailed(words)


async def test_nothing_leaves_to_a_broker_that_does_not_prove_itself_when_the_session_is_renewed() -> None:
    broker, times = SaslPeer(lasts_ms=100), itertools.count()
    async with door(broker, make_exchange=lambda *_: Doubting(times)) as it:
        connection = await it.open()
        broker.delay_s = 0.05
        await until(lambda: len(broker.tokens) == 2)
        behind = ask(connection, b"behind", permit=lambda: True)
        assert "not proven" in (await end_of(behind)).message
        assert connection.closed
        await asyncio.sleep(0.1)
    assert others(broker) == 0


@pytest.mark.parametrize("tokens", [1, 2])  # amid the handshake, and while the last answer is awaited
async def test_nothing_leaves_when_we_give_up_in_the_middle_of_a_renewal(tokens: int) -> None:
    broker = SaslPeer(lasts_ms=100)
    async with door(broker) as it:
        connection = await it.open()
        broker.delay_s = 0.1
        handshakes = [ApiKey.SASL_HANDSHAKE] * 2
        await until(lambda: [key for key, _ in broker.seen if key == ApiKey.SASL_HANDSHAKE] == handshakes)
        await until(lambda: len(broker.tokens) == tokens)
        behind = ask(connection, b"behind", permit=lambda: True)
        await it.locks.aclose()
        assert isinstance(await end_of(behind), Disconnected)
        assert connection.closed
        await asyncio.sleep(0.2)
    assert others(broker) == 0


# -- who uses a connection


async def test_a_connection_that_is_only_renewed_is_not_used() -> None:
    broker = SaslPeer(lasts_ms=100)
    async with door(broker) as it:
        connection = await it.open()
        last_used = connection.last_used
        await until(lambda: len(broker.tokens) >= 3)
        assert connection.last_used == last_used
        await ask(connection, b"at last")
        assert connection.last_used > last_used
        connection.close()
