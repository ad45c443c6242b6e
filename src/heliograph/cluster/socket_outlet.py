"""The way of a connection's bytes to the kernel: past the transport while that keeps nothing back, else through it.

Owns the system call. Must not know what is sent, nor when it may leave (gate.py).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

from heliograph.cluster.conversation import Buffer


class SocketOutlet:
    """The socket is ours and not its number: whichever event loop closes it leaves us an object that refuses to send,
    and no number that may be another connection's by now."""

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
