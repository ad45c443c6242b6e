"""Requests become bytes, received bytes become answers: one connection's conversation, without its socket.

Owns the correlation ids, the order of what waits, and where the next bytes are received. A broker answers the requests
of one connection in the order they were sent, so an answer always belongs to the oldest request that waits; the
correlation id is checked all the same. Must not know how bytes travel, what time it is, nor who waits: whoever asks
leaves a token, and gets it back with the answer.

Answers are received straight into a buffer of their own size: the memoryview a caller gets is the only copy of the
bytes, writable, and lives as long as somebody holds it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from heliograph.cluster.receive_buffers import ReceiveBuffers
from heliograph.model.errors import ProtocolError
from heliograph.wire.frame import decode_response_header, encode_request_header, frame_size

PREFIX_BYTES = 4
_HIGHEST_CORRELATION_ID = 0x7FFFFFFF

Buffer = bytes | bytearray | memoryview
Token = TypeVar("Token")


class _Pending(NamedTuple, Generic[Token]):
    correlation_id: int
    flexible: bool
    deadline: float
    token: Token


class Conversation(Generic[Token]):
    """`frame_limit`: no answer is larger; a peer that announces one does not speak Kafka. It may be changed."""

    def __init__(self, client_id: str, frame_limit: int) -> None:
        self._client_id = client_id
        self.frame_limit = frame_limit
        self._correlation_id = 0
        self._pending: deque[_Pending[Token]] = deque()
        self._prefix = memoryview(bytearray(PREFIX_BYTES))
        self._buffers = ReceiveBuffers()
        self._frame: memoryview | None = None  # None: the next bytes belong to the prefix
        self._filled = 0

    @property
    def waiting(self) -> int:
        """How many requests have no answer yet."""
        return len(self._pending)

    @property
    def first_deadline(self) -> float | None:
        """When the first of the answers is due; the oldest request need not be the most impatient."""
        return min((pending.deadline for pending in self._pending), default=None)

    def ask(
        self,
        api_key: int,
        version: int,
        buffers: Sequence[Buffer],
        *,
        flexible: bool,
        deadline: float,
        token: Token,
    ) -> list[Buffer]:
        """The request's bytes, to be sent in the order of the calls; its answer waits under `token` from now on."""
        self._correlation_id = (self._correlation_id + 1) & _HIGHEST_CORRELATION_ID
        header = encode_request_header(
            api_key, version, self._correlation_id, self._client_id, flexible=flexible
        )
        size_bytes = len(header) + sum(map(len, buffers))
        self._pending.append(_Pending(self._correlation_id, flexible, deadline, token))
        return [size_bytes.to_bytes(PREFIX_BYTES, "big") + header, *buffers]

    def room(self) -> memoryview:
        """Where the next bytes are to be received: never empty, and never more than the rest of one frame."""
        part = self._prefix if self._frame is None else self._frame
        return part[self._filled :]

    def received(self, nbytes: int) -> tuple[Token, memoryview] | None:
        """So many bytes were put into `room()`: the answer that is whole now, without its header.

        `ProtocolError`: nothing more can be understood; what waits is still there for `give_up`.
        """
        self._filled += nbytes
        if self._frame is None:
            if self._filled == PREFIX_BYTES:
                size_bytes = frame_size(bytes(self._prefix), self.frame_limit)
                self._frame, self._filled = self._buffers.take(size_bytes), 0
            return None
        if self._filled < len(self._frame):
            return None
        frame, self._frame, self._filled = self._frame, None, 0
        return self._match(frame)

    def _match(self, frame: memoryview) -> tuple[Token, memoryview]:
        if not self._pending:
            raise ProtocolError("an answer that nobody asked for")
        oldest = self._pending[0]
        correlation_id, body = decode_response_header(frame, flexible=oldest.flexible)
        if correlation_id != oldest.correlation_id:
            raise ProtocolError(f"answer {correlation_id} where {oldest.correlation_id} was due")
        self._pending.popleft()
        return oldest.token, body

    def postpone(self, delay_s: float) -> None:
        """All answers that are waited for come that much later."""
        postponed = (pending._replace(deadline=pending.deadline + delay_s) for pending in self._pending)
        self._pending = deque(postponed)

    def give_up(self) -> list[Token]:
        """Those that will get no answer, oldest first; none waits any more."""
        tokens = [pending.token for pending in self._pending]
        self._pending.clear()
        return tokens
