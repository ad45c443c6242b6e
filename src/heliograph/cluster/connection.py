"""One TCP connection to one broker: the place where requests and answers meet a socket.

Owns the socket, the futures of those who wait, and the timers; it knows no topics, no retries, no addresses of other
brokers. The bytes are exchange.py's, what may leave when is gate.py's.

Every request has a deadline. One late answer closes the whole connection, because all later ones wait behind
it: every request that waits then ends as `RequestTimedOut` or `Disconnected`, with an unknown outcome.

A request may come with a permit, which is asked right before the system call that completes the request. If it says no,
the connection is closed instead, and nothing of what waits behind leaves either. Closing throws away what was not sent.

How one is opened is open_connection.py's.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import cast

from heliograph.cluster.exchange import Buffer, Exchange
from heliograph.cluster.gate import Flow, Gate, Permit
from heliograph.model.errors import Disconnected, HeliographError, ProtocolError, RequestTimedOut

ROOM_LOOK_S = 0.002  # rare: the kernel took all of a request but the very last byte


class _SocketOutlet:
    """The way to the kernel: past the transport while that keeps nothing back, else through it.

    The socket is ours and not its number: whichever event loop closes it leaves us an object that refuses to send, and
    no number that may be another connection's by now.
    """

    def __init__(self, sock: socket.socket, transport: asyncio.Transport) -> None:
        self._sock = sock
        self._transport = transport
        # It calls resume_writing only after it had to keep more than this; and uvloop writes only then at once.
        transport.set_write_buffer_limits(high=0)

    @property
    def is_empty(self) -> bool:
        """A transport that has failed has thrown away what it kept: what comes after that must not follow."""
        return not self._transport.get_write_buffer_size() and not self._transport.is_closing()

    def write_now(self, parts: Sequence[Buffer]) -> int:
        try:
            return self._sock.sendmsg(parts)
        except (BlockingIOError, InterruptedError):
            return 0

    def write_later(self, parts: Sequence[Buffer]) -> None:
        self._transport.writelines(parts)


class Connection(asyncio.BufferedProtocol):
    """Use `open_connection`. `versions` is filled in by whoever negotiates them: api key -> highest version."""

    def __init__(self, address: str, sock: socket.socket, client_id: str, frame_limit: int) -> None:
        self.address = address
        self.versions: dict[int, tuple[int, int]] = {}
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._exchange: Exchange[asyncio.Future[memoryview]] = Exchange(client_id, frame_limit)
        self._transport: asyncio.Transport | None = None
        self._gate: Gate | None = None
        self._watchdog: asyncio.TimerHandle | None = None
        self._room_timer: asyncio.TimerHandle | None = None
        self._closed: HeliographError | None = None
        self.last_used = self._loop.time()

    @property
    def closed(self) -> bool:
        return self._closed is not None

    @property
    def waiting(self) -> int:
        """How many requests have no answer yet."""
        return self._exchange.waiting

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
        answer: asyncio.Future[memoryview] = self._loop.create_future()
        if self._closed is not None or self._gate is None:
            answer.set_exception(self._closed or Disconnected(f"{self.address} is not connected"))
            return answer
        self.last_used = self._loop.time()
        deadline = self.last_used + timeout_ms / 1000
        parts = self._exchange.ask(
            api_key, version, buffers, flexible=flexible, deadline=deadline, token=answer
        )
        self._watch(deadline)
        self._gate.push(parts, permit)
        self.resume_writing()
        return answer

    def postpone(self, delay_s: float) -> None:
        """The broker reads nothing for so long, by a quota: what waits is due that much later."""
        self._exchange.postpone(delay_s)

    def resume_writing(self) -> None:
        """Let go what may leave now. The transport calls it too, whenever it has become empty."""
        if self._gate is None or self._closed is not None:
            return
        try:
            flow = self._gate.flush()
        except OSError as problem:
            self._close_from_within(f"the connection to {self.address} broke: {problem.strerror or problem}")
            return
        if flow is Flow.REFUSED:
            self._close_from_within(f"a request to {self.address} was not permitted any more")
        elif flow is Flow.FULL and self._room_timer is None:
            # By the clock: transports tell only of room for what they keep themselves.
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
        for timer in (self._watchdog, self._room_timer):
            if timer is not None:
                timer.cancel()
        if self._gate is not None:
            self._gate.clear()
        if self._transport is not None:
            self._transport.abort()
        for answer in self._exchange.give_up():
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
        first = self._exchange.first_deadline
        if first is None:
            return
        if first <= self._loop.time():
            self.close(RequestTimedOut(f"{self.address} did not answer in time"))
        else:
            self._watch(first)

    # -- asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._gate = Gate(_SocketOutlet(self._sock, self._transport))

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the frame's own size is what counts
        return self._exchange.room()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            answered = self._exchange.received(nbytes)
        except ProtocolError as problem:
            self.close(ProtocolError(f"{self.address}: {problem.message}", hint=problem.hint))
            return
        if answered is not None:
            answer, body = answered
            if not answer.done():
                answer.set_result(body)

    def eof_received(self) -> None:
        self.close(Disconnected(f"{self.address} closed the connection"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.close(Disconnected(f"the connection to {self.address} broke: {exc or 'closed by the peer'}"))
