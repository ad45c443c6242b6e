"""Kafka's variable-length primitives as bytes, for the encoders.

Owns: the classic and compact encoding of lengths and strings. Must not know any message's layout. What it is
given is our own, so a value out of range is our bug and not a `ProtocolError`.
"""

from __future__ import annotations

import struct
from functools import lru_cache

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")

_ONE_BYTE = [bytes((value,)) for value in range(0x80)]

NO_TAGGED_FIELDS = b"\0"


def uvarint(value: int) -> bytes:
    assert 0 <= value <= 0xFFFF_FFFF, value
    if value < 0x80:
        return _ONE_BYTE[value]
    septets = []
    while value >= 0x80:
        septets.append(value & 0x7F | 0x80)
        value >>= 7
    septets.append(value)
    return bytes(septets)


def size(length: int, *, flexible: bool) -> bytes:
    """The length of an array or of bytes; compact ones are one more, 0 being null."""
    return uvarint(length + 1) if flexible else _INT32.pack(length)


def string(text: str, *, flexible: bool) -> bytes:
    return _compact_string(text) if flexible else _classic_string(text)


# Cached, for topic names come again with every request.
@lru_cache(maxsize=4096)
def _classic_string(text: str) -> bytes:
    encoded = text.encode("utf-8")
    return _INT16.pack(len(encoded)) + encoded


@lru_cache(maxsize=4096)
def _compact_string(text: str) -> bytes:
    encoded = text.encode("utf-8")
    return uvarint(len(encoded) + 1) + encoded
