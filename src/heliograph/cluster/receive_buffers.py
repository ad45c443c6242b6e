"""Buffers that answers are received into: large ones are used again once nobody looks at them any more.

A bytearray cannot change its size while a view of it is alive. That tells whether one is left: nothing has to be given
back by hand, and nothing can be overwritten that is still looked at. Fresh memory for every answer costs a lane about a
tenth of its CPU: the kernel clears each page before it can be filled.
"""

from __future__ import annotations

POOLED_FROM_BYTES = 1 << 18
BUFFERS = 4


class ReceiveBuffers:
    """Of one connection. At most `BUFFERS` are kept."""

    def __init__(self) -> None:
        self._kept: list[bytearray] = []

    def take(self, size_bytes: int) -> memoryview:
        """So many bytes, with anything in them."""
        if size_bytes < POOLED_FROM_BYTES:
            return memoryview(bytearray(size_bytes))
        for buffer in sorted(self._kept, key=len):  # the smallest that will do: all of it stays in use
            if len(buffer) >= size_bytes and _is_free(buffer):
                return memoryview(buffer)[:size_bytes]
        return memoryview(self._fresh(size_bytes))[:size_bytes]

    def _fresh(self, size_bytes: int) -> bytearray:
        fresh = bytearray(1 << (size_bytes - 1).bit_length())
        if len(self._kept) == BUFFERS:
            self._kept.pop(0)  # too small or long in use: it ends with its last view
        self._kept.append(fresh)
        return fresh


def _is_free(buffer: bytearray) -> bool:
    try:
        last = buffer.pop()
    except BufferError:
        return False
    buffer.append(last)
    return True
