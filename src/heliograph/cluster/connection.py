"""One TCP connection to one broker: requests out, answers in, matched in order.

Owns the socket and nothing else: it knows no topics, no retries, no addresses of other brokers. A broker
answers the requests of one connection in the order they were sent, so an answer always belongs to the oldest
request that waits; the correlation id is checked all the same.

Answers are received straight into a buffer of their own size (asyncio's BufferedProtocol): the memoryview a
caller gets is the only copy of the bytes, writable, and lives as long as somebody holds it.

Every request has a deadline. One late answer closes the whole connection, because all later ones wait behind
it: every request that waits then ends as `RequestTimedOut` or `Disconnected`, with an unknown outcome.

A *careful* connection lets no byte arrive late: a request that comes with a permit is held back by its last byte until
all others are with the kernel, and the permit is asked right before that byte follows, at once; a broker executes
nothing that is not whole. What the peer does not acknowledge within 5 s is dropped with the connection.

TLS and SASL belong in `open_connection`: a wrapped transport, and an exchange of frames before it returns.
"""

from __future__ import annotations

import asyncio
import select
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from heliograph.cluster.properties import ClientProperties
from heliograph.cluster.receive_buffers import ReceiveBuffers
from heliograph.model.errors import Disconnected, HeliographError, ProtocolError, RequestTimedOut
from heliograph.wire.frame import decode_response_header, encode_request_header, frame_size

PREFIX_BYTES = 4
FRAME_SLACK_BYTES = 1 << 20  # what an answer holds beside records: names, offsets, error texts
# A batch that is larger than what was asked for comes whole all the same, if it is the first.
LEAST_FRAME_LIMIT = 64 << 20
ACKNOWLEDGED_WITHIN_MS = 5000
ROOM_LOOK_S = 0.002
_CLOSE_AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER: what was not sent yet is thrown away

Buffer = bytes | bytearray | memoryview
Permit = Callable[[], bool]


class _Pending(NamedTuple):
    correlation_id: int
    flexible: bool
    deadline: float
    answer: asyncio.Future[memoryview]


class _Held(NamedTuple):
    """A request that leaves when it is permitted to."""

    parts: list[Buffer]
    permit: Permit


class Connection(asyncio.BufferedProtocol):
    """Use `open_connection`. `versions` is filled in by whoever negotiates them: api key -> highest version."""

    def __init__(self, address: str, client_id: str, frame_limit: int, *, careful: bool = False) -> None:
        self.address = address
        self._careful = careful
        self._held: deque[_Held] = deque()  # the first one's last byte may be all that is left of it
        self._room_timer: asyncio.TimerHandle | None = None
        self.versions: dict[int, tuple[int, int]] = {}
        self._client_id = client_id
        self._frame_limit = frame_limit
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._pending: deque[_Pending] = deque()
        self._correlation_id = 0
        self._prefix = memoryview(bytearray(PREFIX_BYTES))
        self._buffers = ReceiveBuffers()
        self._frame: memoryview | None = None
        self._filled = 0
        self._watchdog: asyncio.TimerHandle | None = None
        self._closed: HeliographError | None = None
        self.last_used = self._loop.time()

    @property
    def closed(self) -> bool:
        return self._closed is not None

    @property
    def waiting(self) -> int:
        """How many requests have no answer yet."""
        return len(self._pending)

    def request(
        self,
        api_key: int,
        version: int,
        buffers: Sequence[Buffer],
        *,
        flexible: bool,
        timeout_ms: int,
        permit: Permit | None = None,
    ) -> asyncio.Future[memoryview]:
        """Send now; the future gives the answer's body, after its header.

        `permit` is asked right before the last byte leaves, on a careful connection; if it says no, all ends here.
        `flexible`: whether this version of the API uses the flexible encoding (ApiVersions answers never do).
        """
        answer: asyncio.Future[memoryview] = self._loop.create_future()
        if self._closed is not None or self._transport is None:
            answer.set_exception(self._closed or Disconnected(f"{self.address} is not connected"))
            return answer
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        header = encode_request_header(
            api_key, version, self._correlation_id, self._client_id, flexible=flexible
        )
        size = len(header) + sum(len(part) for part in buffers)
        self.last_used = self._loop.time()
        deadline = self.last_used + timeout_ms / 1000
        self._pending.append(_Pending(self._correlation_id, flexible, deadline, answer))
        parts = [size.to_bytes(PREFIX_BYTES, "big") + header, *buffers]
        if permit is None:
            assert not self._careful or not self._held
            self._transport.writelines(parts)
        else:
            assert self._careful
            self._hold(_Held(parts, permit))
        self._watch(deadline)
        return answer

    def _hold(self, request: _Held) -> None:
        self._held.append(request)
        if len(self._held) == 1:
            self._send_all_but_the_last_byte()
            self.resume_writing()

    def _send_all_but_the_last_byte(self) -> None:
        assert self._transport is not None
        parts = self._held[0].parts
        while not parts[-1]:
            parts.pop()
        last = memoryview(parts.pop())
        self._transport.writelines([*parts, last[:-1]])
        parts[:] = [last[-1:]]

    def resume_writing(self) -> None:
        """What was written is with the kernel: the last byte may follow, if it is permitted."""
        while self._held and self._transport is not None and not self._transport.get_write_buffer_size():
            if not self._has_room():
                self._look_for_room()
                return
            (last,), permit = self._held.popleft()
            if not permit():
                self._close_from_within(f"a request to {self.address} was not permitted any more")
                return
            self._transport.write(last)
            if self._transport.get_write_buffer_size():  # it would leave later, and nobody would ask then
                self._close_from_within(f"the request to {self.address} did not leave at once")
                return
            if self._held:
                self._send_all_but_the_last_byte()

    def _has_room(self) -> bool:
        """A kernel that took all but the last byte may be full, and the transport would keep that one for later."""
        assert self._transport is not None
        room = select.poll()
        room.register(self._transport.get_extra_info("socket").fileno(), select.POLLOUT)
        return bool(room.poll(0))

    def _look_for_room(self) -> None:
        """By the clock: transports tell only of room for what they keep themselves."""
        if self._room_timer is None:
            self._room_timer = self._loop.call_later(ROOM_LOOK_S, self._look_again)

    def _look_again(self) -> None:
        self._room_timer = None
        self.resume_writing()

    def _close_from_within(self, words: str) -> None:
        """Inside a transport's own callback asyncio cannot bear an abort: it would end the connection twice."""
        if self._transport is not None:
            self._loop.call_soon(self._transport.abort)
            self._transport = None
        self.close(Disconnected(words))

    def close(self, reason: HeliographError | None = None) -> None:
        """End now; every request that waits fails with `reason`."""
        if self._closed is not None:
            return
        self._closed = reason or Disconnected(f"the connection to {self.address} was closed")
        self._held.clear()
        if self._watchdog is not None:
            self._watchdog.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._fail_pending(self._closed)

    def _fail_pending(self, reason: HeliographError) -> None:
        while self._pending:
            answer = self._pending.popleft().answer
            if not answer.done():
                answer.set_exception(reason)
                answer.exception()  # an answer nobody waits for any more is no news

    def _watch(self, deadline: float) -> None:
        """Look again at this time, or earlier if that is planned already."""
        if self._watchdog is not None:
            if self._watchdog.when() <= deadline:
                return
            self._watchdog.cancel()
        self._watchdog = self._loop.call_at(deadline, self._check_deadline)

    def _check_deadline(self) -> None:
        self._watchdog = None
        if not self._pending:
            return
        first = min(pending.deadline for pending in self._pending)
        if first <= self._loop.time():
            self.close(RequestTimedOut(f"{self.address} did not answer in time"))
        else:
            self._watch(first)

    # -- asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._careful:
            self._transport.set_write_buffer_limits(high=0)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the frame's own size is what counts
        part = self._prefix if self._frame is None else self._frame
        return part[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        try:
            if self._frame is None:
                if self._filled == PREFIX_BYTES:
                    size = frame_size(bytes(self._prefix), self._frame_limit)
                    self._frame, self._filled = self._buffers.take(size), 0
            elif self._filled == len(self._frame):
                frame, self._frame, self._filled = self._frame, None, 0
                self._receive(frame)
        except ProtocolError as problem:
            self.close(ProtocolError(f"{self.address}: {problem.message}", hint=problem.hint))

    def _receive(self, frame: memoryview) -> None:
        if not self._pending:
            raise ProtocolError("an answer that nobody asked for")
        pending = self._pending.popleft()
        try:
            correlation_id, body = decode_response_header(frame, flexible=pending.flexible)
            if correlation_id != pending.correlation_id:
                raise ProtocolError(f"answer {correlation_id} where {pending.correlation_id} was due")
        except ProtocolError:
            self._pending.appendleft(pending)  # fails with the connection, like all that wait
            raise
        if not pending.answer.done():
            pending.answer.set_result(body)

    def eof_received(self) -> None:
        self.close(Disconnected(f"{self.address} closed the connection"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.close(Disconnected(f"the connection to {self.address} broke: {exc or 'closed by the peer'}"))


async def open_connection(
    host: str, port: int, properties: ClientProperties, *, careful: bool = False
) -> Connection:
    """Connect within `socket.connection.setup.timeout.ms`; `Disconnected` says why not."""
    address = f"{host}:{port}"
    try:
        async with asyncio.timeout(properties.socket_connection_setup_timeout_ms / 1000):
            return await _connect(host, port, address, properties, careful=careful)
    except TimeoutError:
        raise Disconnected(f"{address} did not accept a connection in time") from None
    except (OSError, UnicodeError) as problem:
        words = problem.strerror if isinstance(problem, OSError) else None
        raise Disconnected(f"{address} cannot be reached: {words or problem}") from problem


async def _connect(
    host: str, port: int, address: str, properties: ClientProperties, *, careful: bool
) -> Connection:
    """The first of the host's addresses that accepts."""
    loop = asyncio.get_running_loop()
    limit = max(properties.fetch_max_bytes + properties.max_partition_fetch_bytes, LEAST_FRAME_LIMIT)
    failed: OSError | None = None
    for family, kind, protocol, _, place in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        sock = socket.socket(family, kind, protocol)
        try:
            # Before it connects: the window's scale is fixed by the first packet.
            _tune(sock, properties, careful=careful)
            await loop.sock_connect(sock, place)
        except OSError as problem:
            sock.close()
            failed = problem
        except BaseException:
            sock.close()
            raise
        else:
            _, connection = await loop.create_connection(
                lambda: Connection(address, properties.client_id, limit + FRAME_SLACK_BYTES, careful=careful),
                sock=sock,
            )
            return connection
    raise failed or OSError(f"no address for {host}")


def _tune(sock: socket.socket, properties: ClientProperties, *, careful: bool) -> None:
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _CLOSE_AT_ONCE)
    if careful and hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, ACKNOWLEDGED_WITHIN_MS)
    if properties.send_buffer_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, properties.send_buffer_bytes)
    if properties.receive_buffer_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, properties.receive_buffer_bytes)
