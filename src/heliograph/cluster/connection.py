"""One TCP connection to one broker: the place where requests and answers meet a socket.

Owns the socket, the futures of those who wait, and the timers; it knows no topics, no retries, no addresses of other
brokers. The bytes are conversation.py's, what may leave when is gate.py's.

Every request has a deadline. One late answer closes the whole connection, because all later ones wait behind
it: every request that waits then ends as `RequestTimedOut` or `Disconnected`, with an unknown outcome.

A request may come with a permit, which is asked right before the system call that completes the request. If it says no,
the connection is closed instead, and nothing of what waits behind leaves either. Closing throws away what was not sent.

Under TLS requests are sealed before they come to the gate, and answers are opened when they are received
(security/tls_stream.py). While a connection is reserved, for proving again who we are, all other requests wait; if that
fails, none of them leaves, and the connection is closed.

How one is opened is open_connection.py's.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NamedTuple, cast

from heliograph.cluster.conversation import Buffer, Conversation
from heliograph.cluster.gate import Flow, Gate, Permit
from heliograph.cluster.line import Line
from heliograph.cluster.security.tls_failures import closed_while_shaking
from heliograph.cluster.security.tls_stream import TlsStream
from heliograph.cluster.socket_outlet import SocketOutlet
from heliograph.model.errors import (
    Disconnected,
    HeliographError,
    ProtocolError,
    RequestTimedOut,
    SecurityFailed,
)

ROOM_LOOK_S = 0.002  # rare: the kernel took all of a request but the very last byte


class _Request(NamedTuple):
    api_key: int
    version: int
    buffers: Sequence[Buffer]
    flexible: bool
    deadline: float
    permit: Permit | None
    answer: asyncio.Future[memoryview]


class Connection(asyncio.BufferedProtocol):
    """Use `open_connection`. `versions` is filled in by whoever negotiates them: api key -> highest version.

    `frame_limit`: of answers; it may be raised once the peer has proven who it is. `tls`: None in plain text.
    """

    def __init__(
        self,
        address: str,
        sock: socket.socket,
        client_id: str,
        frame_limit: int,
        tls: TlsStream | None = None,
    ) -> None:
        self.address = address
        self.versions: dict[int, tuple[int, int]] = {}
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()  # TLS included
        self._sock = sock
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._conversation: Conversation[asyncio.Future[memoryview]] = Conversation(client_id, frame_limit)
        self._reserved = False
        self._behind: deque[_Request] = deque()  # asked for while it is reserved
        self._all_left: asyncio.Future[None] | None = None  # whoever reserves waits for that
        self._transport: asyncio.Transport | None = None
        self._gate: Gate | None = None
        self._watchdog: asyncio.TimerHandle | None = None
        self._room_timer: asyncio.TimerHandle | None = None
        self._session_timer: asyncio.TimerHandle | None = None
        self._closed: HeliographError | None = None
        self.last_used = self._loop.time()  # by anybody but those who reserve it

    @property
    def closed(self) -> bool:
        return self._closed is not None

    @property
    def waiting(self) -> int:
        """How many requests have no answer yet."""
        return self._conversation.waiting + len(self._behind)

    @property
    def is_held(self) -> bool:
        """Whether a request, or a part of one, may not leave yet."""
        return self._gate is not None and not self._gate.is_open

    def allow_frames(self, limit_bytes: int) -> None:
        """Answers may be so large from now on."""
        self._conversation.frame_limit = limit_bytes

    def renew_in(self, delay_s: float, renew: Callable[[], None]) -> None:
        """Call this when the session nears its end, if the connection is open then. One time, the last that was set."""
        if self._session_timer is not None:
            self._session_timer.cancel()
        self._session_timer = self._loop.call_later(delay_s, renew) if self._closed is None else None

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

        `permit` is asked right before the request is whole with the kernel; if it says no, all ends here.
        `flexible`: whether this version of the API uses the flexible encoding (ApiVersions answers never do).
        """
        request = self._asked(api_key, version, buffers, flexible, timeout_ms, permit)
        self.last_used = self._loop.time()
        if self._reserved and self._closed is None:
            self._behind.append(request)
            self._watch(request.deadline)
        else:
            self._send(request)
        return request.answer

    @contextlib.asynccontextmanager
    async def reserved(self, limit_s: float) -> AsyncIterator[Line]:
        """For requests that no others may come between. It begins when nothing is held back any more, which may take so
        long. What others ask for meanwhile leaves at the end, in its order, or never, if this fails or is cancelled:
        then the connection is closed, because the peer may not be who it should be, nor know who we are."""
        assert not self._reserved
        self._reserved = True
        try:
            await self._left(limit_s)
            yield _ReservedLine(self)
        except BaseException as failed:
            self.close(failed if isinstance(failed, HeliographError) else None)
            raise
        finally:
            self._reserved = False
        while self._behind and self._closed is None:
            self._send(self._behind.popleft())

    async def _left(self, limit_s: float) -> None:
        """Wait until nothing is held back. New requests must wait, too: else it may be never."""
        if not self.is_held:
            return
        self._all_left = self._loop.create_future()
        try:
            async with asyncio.timeout(limit_s):
                await self._all_left
        except TimeoutError:
            words = f"{self.address} did not take in time what had to leave before the session is renewed"
            raise RequestTimedOut(words) from None
        finally:
            self._all_left = None

    def _asked(
        self,
        api_key: int,
        version: int,
        buffers: Sequence[Buffer],
        flexible: bool,
        timeout_ms: int,
        permit: Permit | None,
    ) -> _Request:
        deadline = self._loop.time() + timeout_ms / 1000
        return _Request(
            api_key, version, buffers, flexible, deadline, permit, answer=self._loop.create_future()
        )

    def _send(self, request: _Request) -> None:
        if self._closed is not None or self._gate is None:
            request.answer.set_exception(self._closed or Disconnected(f"{self.address} is not connected"))
            return
        parts: Sequence[Buffer] = self._conversation.ask(
            request.api_key,
            request.version,
            request.buffers,
            flexible=request.flexible,
            deadline=request.deadline,
            token=request.answer,
        )
        if self._tls is not None:
            try:
                parts = [self._tls.seal(parts)]
            except SecurityFailed as problem:
                self.close(self._at_address(problem))
                return
        self._watch(request.deadline)
        self._gate.push(parts, request.permit)
        self.resume_writing()

    def postpone(self, delay_s: float) -> None:
        """The broker reads nothing for so long, by a quota: what waits is due that much later."""
        self._conversation.postpone(delay_s)
        self._behind = deque(each._replace(deadline=each.deadline + delay_s) for each in self._behind)

    def resume_writing(self) -> None:
        """Let go what may leave now. The transport calls it too, whenever it has become empty."""
        if self._gate is None or self._closed is not None:
            return
        try:
            flow = self._gate.flush()
        except OSError as problem:
            words = f"the connection to {self.address} broke: {problem.strerror or problem}"
            self._close_from_within(self._last_words() or self._lost(words))
            return
        if flow is Flow.REFUSED:
            self._close_from_within(Disconnected(f"a request to {self.address} was not permitted any more"))
        elif flow is Flow.FULL and self._room_timer is None:
            # By the clock: transports tell only of room for what they keep themselves.
            self._room_timer = self._loop.call_later(ROOM_LOOK_S, self._look_again)
        elif flow is Flow.OPEN and self._all_left is not None and not self._all_left.done():
            self._all_left.set_result(None)

    def _look_again(self) -> None:
        self._room_timer = None
        self.resume_writing()

    def _last_words(self) -> HeliographError | None:
        """Why the peer has ended TLS, if it said so before it closed: our own call may fail before we have heard."""
        if self._tls is None:
            return None
        try:
            self._tls.received(self._sock.recv_into(self._tls.room()))
            self._tls.read_into(memoryview(bytearray(1)))
        except OSError:
            return None
        except SecurityFailed as problem:
            return self._at_address(problem)
        return None

    def _close_from_within(self, reason: HeliographError) -> None:
        """Inside a transport's own callback asyncio cannot bear an abort: it would end the connection twice."""
        if self._transport is not None:
            self._loop.call_soon(self._transport.abort)
            self._transport = None
        self.close(reason)

    def close(self, reason: HeliographError | None = None) -> None:
        """End now; every request that waits fails with `reason`."""
        if self._closed is not None:
            return
        self._closed = reason or Disconnected(f"the connection to {self.address} was closed")
        for timer in (self._watchdog, self._room_timer, self._session_timer):
            if timer is not None:
                timer.cancel()
        if self._gate is not None:
            self._gate.clear()
        if self._transport is not None:
            self._transport.abort()
        if not self.opened.done():
            self.opened.set_exception(self._closed)
            self.opened.exception()
        behind: list[asyncio.Future[Any]] = [request.answer for request in self._behind]
        self._behind.clear()
        if self._all_left is not None:
            behind.append(self._all_left)
        for answer in (*self._conversation.give_up(), *behind):
            if not answer.done():
                answer.set_exception(self._closed)
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
        first = min((request.deadline for request in self._behind), default=math.inf)
        if (sent := self._conversation.first_deadline) is not None:
            first = min(first, sent)
        if first == math.inf:
            return
        if first <= self._loop.time():
            self.close(RequestTimedOut(f"{self.address} did not answer in time"))
        else:
            self._watch(first)

    def _lost(self, words: str) -> HeliographError:
        """The peer has left."""
        if self._tls is None:
            return Disconnected(words)
        if not self._tls.is_ready:
            return self._at_address(closed_while_shaking())
        return Disconnected(words, hint=self._tls.hint_if_lost)

    def _at_address(self, problem: HeliographError) -> HeliographError:
        return type(problem)(f"{self.address}: {problem.message}", hint=problem.hint)

    def _shake(self, tls: TlsStream) -> None:
        """What the handshake has to say goes out, and once it is over whoever opens the connection is told."""
        words = tls.own_words()
        if words and self._gate is not None:
            self._gate.push([words], None)
            self.resume_writing()
        if tls.is_ready and not self.opened.done():
            self.opened.set_result(None)

    def _open_sealed(self, tls: TlsStream, nbytes: int) -> None:
        tls.received(nbytes)
        while tls.is_ready and self._closed is None and (plain := tls.read_into(self._conversation.room())):
            self._take(plain)
        self._shake(tls)
        if tls.has_ended:
            self.eof_received()

    def _take(self, nbytes: int) -> None:
        answered = self._conversation.received(nbytes)
        if answered is not None:
            answer, body = answered
            if not answer.done():
                answer.set_result(body)

    # -- asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._gate = Gate(SocketOutlet(self._sock, self._transport))
        if self._tls is None:
            self.opened.set_result(None)
        else:
            self._tls.shake()
            self._shake(self._tls)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the frame's own size is what counts
        return self._conversation.room() if self._tls is None else self._tls.room()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            if self._tls is None:
                self._take(nbytes)
            else:
                self._open_sealed(self._tls, nbytes)
        except (ProtocolError, SecurityFailed) as problem:
            self.close(self._at_address(problem))

    def eof_received(self) -> None:
        self.close(self._lost(f"{self.address} closed the connection"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.close(self._lost(f"the connection to {self.address} broke: {exc or 'closed by the peer'}"))


class _ReservedLine:
    """What may be sent while a connection is reserved."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.address = connection.address
        self.versions = connection.versions

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
        request = self._connection._asked(api_key, version, buffers, flexible, timeout_ms, permit)
        self._connection._send(request)
        return request.answer
