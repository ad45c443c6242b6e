"""Memory with a wall behind it: whoever reads or writes one byte too many ends the process."""

from __future__ import annotations

import ctypes
import mmap

_LIBC = ctypes.CDLL(None, use_errno=True)
_NO_ACCESS = 0


def guarded(content: bytes | bytearray) -> memoryview:
    """A copy whose last byte is the last that may be touched."""
    room = -(-len(content) // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, room + mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    wall = ctypes.c_void_p(address + room)
    if _LIBC.mprotect(wall, ctypes.c_size_t(mmap.PAGESIZE), _NO_ACCESS) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
    view = memoryview(memory)[room - len(content) : room]
    view[:] = content
    return view
