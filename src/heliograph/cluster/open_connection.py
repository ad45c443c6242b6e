"""How a connection is opened: which address, how the socket is tuned, how long it may take.

Owns the socket until a `Connection` has it, and the time that the TLS handshake may take. What TLS is made of, and who
we are to the broker, is security/cluster_locks.py's.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from functools import partial

from heliograph.cluster.connection import Connection
from heliograph.cluster.properties import ClientProperties
from heliograph.cluster.security.tls_stream import TlsStream
from heliograph.model.errors import Disconnected, SecurityFailed

FRAME_SLACK_BYTES = 1 << 20  # what an answer holds beside records: names, offsets, error texts
# A batch that is larger than what was asked for comes whole all the same, if it is the first.
LEAST_FRAME_LIMIT = 64 << 20
# A peer that has yet to hear who we are is not given much memory. Tokens of Kerberos have some kilobytes.
UNPROVEN_FRAME_LIMIT = 1 << 20
_CLOSE_AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER: what was not sent yet is thrown away


async def open_connection(
    host: str,
    port: int,
    properties: ClientProperties,
    *,
    tls: TlsStream | None = None,
    unacknowledged_ms: int = 0,
) -> Connection:
    """Connect within `socket.connection.setup.timeout.ms`; `Disconnected` or `SecurityFailed` says why not.

    `unacknowledged_ms`: after that the kernel gives up on bytes that the peer does not take, even while we are frozen.
    0 leaves that to the system: a quarter of an hour and more.
    """
    address = f"{host}:{port}"
    try:
        async with asyncio.timeout(properties.socket_connection_setup_timeout_ms / 1000):
            return await _connect(host, port, properties, tls, unacknowledged_ms)
    except TimeoutError:
        if tls is not None and tls.has_begun:
            raise SecurityFailed(
                f"{address} did not finish the TLS handshake in time",
                hint="is this the port of a Kafka listener with TLS? see the broker's log",
            ) from None
        raise Disconnected(f"{address} did not accept a connection in time") from None
    except (OSError, UnicodeError) as problem:
        words = problem.strerror if isinstance(problem, OSError) else None
        raise Disconnected(f"{address} cannot be reached: {words or problem}") from problem


def answer_limit(properties: ClientProperties) -> int:
    """No answer is larger."""
    records = max(properties.fetch_max_bytes + properties.max_partition_fetch_bytes, LEAST_FRAME_LIMIT)
    return records + FRAME_SLACK_BYTES


async def _connect(
    host: str, port: int, properties: ClientProperties, tls: TlsStream | None, unacknowledged_ms: int
) -> Connection:
    """The first of the host's addresses that accepts."""
    loop = asyncio.get_running_loop()
    limit = answer_limit(properties) if properties.security.sasl is None else UNPROVEN_FRAME_LIMIT
    failed: OSError | None = None
    for family, kind, protocol, _, place in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        sock = socket.socket(family, kind, protocol)
        try:
            # Before it connects: the window's scale is fixed by the first packet.
            _tune(sock, properties, unacknowledged_ms)
            await loop.sock_connect(sock, place)
        except OSError as problem:
            sock.close()
            failed = problem
        except BaseException:
            sock.close()
            raise
        else:
            make = partial(Connection, f"{host}:{port}", sock, properties.client_id, limit, tls)
            _, connection = await loop.create_connection(make, sock=sock)
            return await _shaken(connection)
    raise failed or OSError(f"no address for {host}")


async def _shaken(connection: Connection) -> Connection:
    try:
        await connection.opened
    except BaseException:  # also when the time is over
        connection.close()
        raise
    return connection


def _tune(sock: socket.socket, properties: ClientProperties, unacknowledged_ms: int) -> None:
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _CLOSE_AT_ONCE)
    if unacknowledged_ms and hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, unacknowledged_ms)
    if properties.send_buffer_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, properties.send_buffer_bytes)
    if properties.receive_buffer_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, properties.receive_buffer_bytes)
