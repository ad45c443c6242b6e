"""Peers on loopback that play a broker, well or badly: real sockets, no Kafka."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from heliograph.cluster.properties import ClientProperties

Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def properties_for(*ports: int, **changed: Any) -> ClientProperties:
    """Short times, so that a test of a timeout is short too."""
    times = {"request_timeout_ms": 300, "socket_connection_setup_timeout_ms": 300}
    return ClientProperties(
        bootstrap_servers=tuple(("127.0.0.1", port) for port in ports), **{**times, **changed}
    )


@contextlib.asynccontextmanager
async def peer(behaviour: Behaviour, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A listener that treats every connection like this; its port. All is closed at the end. With a `context` it speaks
    TLS."""
    tasks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await behaviour(reader, writer)
        except (asyncio.CancelledError, ConnectionError, asyncio.IncompleteReadError):
            pass  # the test is over, or the other side has left
        finally:
            writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def read_request(reader: asyncio.StreamReader) -> tuple[int, int, int, bytes]:
    """api key, version, correlation id, and what follows the client id."""
    (size_bytes,) = struct.unpack(">i", await reader.readexactly(4))
    frame = await reader.readexactly(size_bytes)
    api_key, version, correlation_id, name_bytes = struct.unpack_from(">hhih", frame)
    return api_key, version, correlation_id, frame[10 + max(name_bytes, 0) :]


def answer(correlation_id: int, body: bytes) -> bytes:
    return struct.pack(">ii", len(body) + 4, correlation_id) + body


async def never_answer(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    while await reader.read(1 << 16):
        pass


async def close_at_once(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    return


async def reset(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """An RST instead of an orderly end."""
    linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


def always_say(data: bytes) -> Behaviour:
    """Answer every request with these bytes, whatever was asked."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            writer.write(data)
            await writer.drain()

    return behave


async def speak_unasked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(answer(1, b"unasked"))
    await never_answer(reader, writer)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each request with its own body, in order."""
    while True:
        _, _, correlation_id, body = await read_request(reader)
        writer.write(answer(correlation_id, body))
