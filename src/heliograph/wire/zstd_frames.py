"""Zstandard frames, bounded before they are decompressed.

    magic   descriptor   [window]   [dictionary id]   [content size]
    block: 3 bytes LE (1 bit last, 2 bits type, 21 bits size), bytes; [checksum]

Java's frames are streams: they do not say how large their content is. So the blocks are walked: a raw or repeated one
says its size, a compressed one holds 128 KB at most. The window is memory that a decoder takes before it has read
anything; 128 MB is what Java's and librdkafka's take at most, too.
"""

from __future__ import annotations

import threading

from cramjam import DecompressionError, zstd

from heliograph.model.errors import CorruptBatch, DecompressionLimit

_LEVEL = 3  # Java's and librdkafka's default
_MAGIC = 0xFD2FB528
_SKIPPABLE, _SKIPPABLE_MASK = 0x184D2A50, 0xFFFFFFF0
_SINGLE_SEGMENT = 0x20
_CHECKSUM = 0x04
_RAW, _REPEATED, _COMPRESSED = 0, 1, 2
_BLOCK_BYTES = 128 << 10
_WINDOW_BYTES = 128 << 20
_DICTIONARY_BYTES = (0, 1, 2, 4)
_CONTENT_SIZE_BYTES = (0, 2, 4, 8)
_scratch = threading.local()


def compress(records: bytes | bytearray | memoryview) -> bytes:
    return bytes(zstd.compress(records, level=_LEVEL))


def decompress(compressed: memoryview, limit_bytes: int) -> memoryview:
    declared, bound = _sizes(compressed)
    if declared > limit_bytes:
        raise DecompressionLimit(
            f"a batch's zstd frame holds {declared} bytes of records, the limit is {limit_bytes}"
        )
    room = min(bound, limit_bytes)
    # A frame of Java's with one small record may hold a whole block by what it says. Room for that is kept: to allocate
    # it took 65 of the 78 us for such a frame.
    kept = room <= _BLOCK_BYTES
    out = _kept_block()[:room] if kept else memoryview(bytearray(room))
    try:
        size = zstd.decompress_into(compressed, out)
    except DecompressionError as error:
        if bound > limit_bytes and "whole buffer" in str(error):
            raise DecompressionLimit(
                f"a batch's zstd frame holds more than {limit_bytes} bytes of records"
            ) from None
        raise CorruptBatch(f"the batch's zstd frame is corrupt: {error}") from None
    return memoryview(bytearray(out[:size])) if kept else out[:size]


def _kept_block() -> memoryview:
    """Of this thread."""
    block: memoryview | None = getattr(_scratch, "block", None)
    if block is None:
        block = _scratch.block = memoryview(bytearray(_BLOCK_BYTES))
    return block


def _sizes(data: memoryview) -> tuple[int, int]:
    """What the frames say that they hold, as far as they do, and what their blocks can hold at most."""
    declared = bound = at = 0
    while at < len(data) or not at:
        magic = _number(data, at, 4)
        at += 4
        if magic & _SKIPPABLE_MASK == _SKIPPABLE:
            at += 4 + _number(data, at, 4)
            continue
        if magic != _MAGIC:
            raise CorruptBatch("the batch has no zstd frame")
        at, content, checksum = _frame_header(data, at)
        last = False
        frame_bound = 0
        while not last:
            block = _number(data, at, 3)
            at += 3
            last, kind, size = bool(block & 1), block >> 1 & 3, block >> 3
            if size > _BLOCK_BYTES or kind > _COMPRESSED:
                raise CorruptBatch(f"a zstd block cannot have type {kind} and size {size}")
            frame_bound += _BLOCK_BYTES if kind == _COMPRESSED else size
            at += 1 if kind == _REPEATED else size
            if at > len(data):
                raise CorruptBatch("the batch's zstd frame is cut")
        at += 4 if checksum else 0
        declared += content or 0
        bound += frame_bound if content is None else min(content, frame_bound)
    if at != len(data):
        raise CorruptBatch("the batch's zstd frame is cut")
    return declared, bound


def _frame_header(data: memoryview, at: int) -> tuple[int, int | None, bool]:
    """Where the blocks begin, the content's size if it is said, and whether a checksum is behind the blocks."""
    descriptor = _number(data, at, 1)
    at += 1
    single = bool(descriptor & _SINGLE_SEGMENT)
    window = 0
    if not single:
        code = _number(data, at, 1)
        at += 1
        window = 1 << 10 + (code >> 3)
        window += (window >> 3) * (code & 7)
    at += _DICTIONARY_BYTES[descriptor & 3]
    width = _CONTENT_SIZE_BYTES[descriptor >> 6] or int(single)
    content = None
    if width:
        content = _number(data, at, width) + (256 if width == 2 else 0)
        at += width
    # A frame without a window of its own has its content for one; that is compared with the limit.
    if window > _WINDOW_BYTES:
        raise DecompressionLimit(f"a batch's zstd frame wants a window of {window} bytes")
    return at, content, bool(descriptor & _CHECKSUM)


def _number(data: memoryview, at: int, width: int) -> int:
    if len(data) - at < width:
        raise CorruptBatch("the batch's zstd frame is cut")
    return int.from_bytes(data[at : at + width], "little")
