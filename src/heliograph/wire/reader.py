"""Bounds-checked reading of Kafka's primitive types.

Owns: the two encodings of lengths (classic and, from an API's first flexible version on, compact) and the
promise that bytes of any shape give a value or a `ProtocolError`, with nothing allocated on the word of a
count or a length that the bytes present could not hold. Must not know any message's layout.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

from heliograph.model.errors import ProtocolError

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_UINT32 = struct.Struct(">I")
_UVARINT_MAX_BYTES = 5
_UINT32_MAX = 0xFFFF_FFFF
# A tagged field takes at least one byte of tag and one of size.
_TAGGED_FIELD_MIN_BYTES = 2


class Reader:
    """Reads one message from front to back. `flexible` chooses compact lengths and tagged fields."""

    __slots__ = ("_at", "_end", "_flexible", "_view")

    def __init__(self, view: memoryview, *, flexible: bool = False) -> None:
        self._view = view
        self._at = 0
        self._end = len(view)
        self._flexible = flexible

    @property
    def remaining(self) -> int:
        return self._end - self._at

    @property
    def rest(self) -> memoryview:
        return self._view[self._at :]

    def expect_end(self) -> None:
        """A message that is not consumed to its last byte was not understood."""
        if self._at != self._end:
            raise ProtocolError(f"{self.remaining} bytes too many after a message of {self._at} bytes")

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Several fixed-size fields at once: a call per field would be most of the decoding time."""
        at = self._at
        try:
            values = layout.unpack_from(self._view, at)
        except struct.error:
            raise self._overrun(layout.size) from None
        self._at = at + layout.size
        return values

    def int8(self) -> int:
        return int(self.unpack(_INT8)[0])

    def int16(self) -> int:
        return int(self.unpack(_INT16)[0])

    def int32(self) -> int:
        return int(self.unpack(_INT32)[0])

    def int64(self) -> int:
        return int(self.unpack(_INT64)[0])

    def uint32(self) -> int:
        return int(self.unpack(_UINT32)[0])

    def uvarint(self) -> int:
        """Unsigned, little end first, seven bits a byte, at most 32 bits in all."""
        first = self._byte()
        return first if first < 0x80 else self._rest_of_uvarint(first)

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise ProtocolError(f"a string that must be there is null before byte {self._at}")
        return text

    def nullable_string(self) -> str | None:
        size_bytes = self.uvarint() - 1 if self._flexible else self.int16()
        if size_bytes == -1:
            return None
        try:
            return str(self._take(size_bytes), "utf-8")
        except UnicodeDecodeError:
            raise ProtocolError(f"a string before byte {self._at} is not UTF-8") from None

    def nullable_bytes(self) -> memoryview:
        """A view, not a copy; null and empty are both an empty view."""
        size_bytes = self.uvarint() - 1 if self._flexible else self.int32()
        return self._take(0 if size_bytes == -1 else size_bytes)

    def count(self, element_min_bytes: int) -> int:
        """An array's number of elements, refused when the bytes left could not hold that many."""
        count = self.nullable_count(element_min_bytes)
        if count is None:
            raise ProtocolError(f"an array that must be there is null before byte {self._at}")
        return count

    def nullable_count(self, element_min_bytes: int) -> int | None:
        count = self.uvarint() - 1 if self._flexible else self.int32()
        if count == -1:
            return None
        if count < 0 or count * element_min_bytes > self._end - self._at:
            raise ProtocolError(
                f"an array of {count} elements before byte {self._at} with {self.remaining} bytes left"
            )
        return count

    def tagged_fields(self) -> Iterable[tuple[int, memoryview]]:
        """The tagged fields that end a flexible struct: tag and content. To be iterated to its end."""
        count = self.uvarint()
        if count == 0:
            return ()  # nearly always: spare the generator
        if count * _TAGGED_FIELD_MIN_BYTES > self._end - self._at:
            raise ProtocolError(f"{count} tagged fields with {self.remaining} bytes left")
        return self._tagged_fields(count)

    def skip_tagged_fields(self) -> None:
        """Does nothing in a message that is not flexible: there are none."""
        if self._flexible:
            for _ in self.tagged_fields():
                pass

    def _byte(self) -> int:
        at = self._at
        if at >= self._end:
            raise self._overrun(1)
        self._at = at + 1
        return self._view[at]

    def _rest_of_uvarint(self, first: int) -> int:
        value = first & 0x7F
        for nth in range(1, _UVARINT_MAX_BYTES):
            byte = self._byte()
            value |= (byte & 0x7F) << (7 * nth)
            if byte < 0x80 and value <= _UINT32_MAX:
                return value
        raise ProtocolError(f"a variable-length integer exceeds 32 bits before byte {self._at}")

    def _tagged_fields(self, count: int) -> Iterator[tuple[int, memoryview]]:
        for _ in range(count):
            tag = self.uvarint()
            yield tag, self._take(self.uvarint())

    def _take(self, size_bytes: int) -> memoryview:
        at = self._at
        end = at + size_bytes
        if size_bytes < 0 or end > self._end:
            raise self._overrun(size_bytes)
        self._at = end
        return self._view[at:end]

    def _overrun(self, wanted_bytes: int) -> ProtocolError:
        return ProtocolError(
            f"{wanted_bytes} bytes wanted at byte {self._at} of {self._end}, {self.remaining} are left"
        )
