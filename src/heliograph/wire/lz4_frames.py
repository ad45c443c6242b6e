"""LZ4 frames as Kafka's clients take them.

    magic   flags   block size's code   [content size, 8]   header checksum
    block: size (uint32 LE; the highest bit: stored as it is), bytes, [checksum]; the last has size 0; [checksum]

Written: independent blocks of up to 64 KB (Java refuses linked ones) with the content's size. Read: all that the format
allows but dictionaries. The blocks are walked first: that bounds what they decompress to.
"""

from __future__ import annotations

import struct

from cramjam import DecompressionError, lz4

from heliograph.model.errors import CorruptBatch, DecompressionLimit

_MAGIC = struct.pack("<I", 0x184D2204)
_SIZE = struct.Struct("<I")
_CONTENT_SIZE = struct.Struct("<Q")
_VERSION_BITS, _VERSION = 0xC0, 0x40
_INDEPENDENT = 0x20
_BLOCK_CHECKSUM = 0x10
_HAS_CONTENT_SIZE = 0x08
_CONTENT_CHECKSUM = 0x04
_DICTIONARY = 0x01
_STORED = 0x80000000
_BLOCK_BYTES = 64 << 10
_BLOCK_CODE = 0x40
_BLOCK_SIZES = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}
_MAX_RATIO = 255  # a byte of a block stands for 255 of its content at most
_HEAD_BYTES = 6


def compress(records: bytes | bytearray | memoryview) -> bytes:
    view = memoryview(records)
    flags = _VERSION | _INDEPENDENT | _HAS_CONTENT_SIZE
    descriptor = bytes([flags, _BLOCK_CODE]) + _CONTENT_SIZE.pack(len(view))
    out = bytearray(_MAGIC + descriptor)
    out.append(_xxh32_short(descriptor) >> 8 & 0xFF)
    for at in range(0, len(view), _BLOCK_BYTES):
        piece = view[at : at + _BLOCK_BYTES]
        block = bytes(lz4.compress_block(piece, store_size=False))
        if len(block) < len(piece):
            out += _SIZE.pack(len(block))
            out += block
        else:
            out += _SIZE.pack(len(piece) | _STORED)
            out += piece
    out += _SIZE.pack(0)
    return bytes(out)


def decompress(compressed: memoryview, limit_bytes: int) -> memoryview:
    declared, bound = _sizes(compressed)
    if declared is not None and declared > limit_bytes:
        raise DecompressionLimit(
            f"a batch's lz4 frame holds {declared} bytes of records, the limit is {limit_bytes}"
        )
    out = bytearray(min(bound if declared is None else declared, limit_bytes))
    try:
        size = lz4.decompress_into(compressed, out)
    except DecompressionError as error:
        if bound > limit_bytes and "whole buffer" in str(error) and declared is None:
            raise DecompressionLimit(
                f"a batch's lz4 frame holds more than {limit_bytes} bytes of records"
            ) from None
        raise CorruptBatch(f"the batch's lz4 frame is corrupt: {error}") from None
    if declared is not None and size != declared:
        raise CorruptBatch(f"the batch's lz4 frame holds {size} bytes where it says {declared}")
    return memoryview(out)[:size]


def with_right_checksum(frame: memoryview) -> memoryview:
    """A copy of a frame as Kafka before 0.10 wrote it, with a header checksum of other bytes than the format says."""
    if len(frame) < _HEAD_BYTES + 1:
        return frame
    at = _HEAD_BYTES + (8 if frame[4] & _HAS_CONTENT_SIZE else 0)
    if len(frame) <= at:
        return frame
    mended = bytearray(frame)
    mended[at] = _xxh32_short(bytes(frame[4:at])) >> 8 & 0xFF
    return memoryview(mended)


def _sizes(frame: memoryview) -> tuple[int | None, int]:
    """What the frame says that it holds, if it does, and what its blocks can hold at most."""
    if len(frame) < _HEAD_BYTES + 1 or frame[:4] != _MAGIC:
        raise CorruptBatch("the batch has no lz4 frame")
    flags = frame[4]
    block_bytes = _BLOCK_SIZES.get(frame[5] >> 4)
    if flags & _VERSION_BITS != _VERSION or flags & _DICTIONARY or block_bytes is None:
        raise CorruptBatch(f"an lz4 frame cannot have the flags {flags:#04x} and {frame[5]:#04x}")
    at = _HEAD_BYTES
    declared = None
    if flags & _HAS_CONTENT_SIZE:
        if len(frame) < at + 9:
            raise CorruptBatch("the batch's lz4 frame is cut inside its header")
        (declared,) = _CONTENT_SIZE.unpack_from(frame, at)
        at += 8
    at += 1
    bound = 0
    while True:
        if len(frame) - at < 4:
            raise CorruptBatch("the batch's lz4 frame is cut")
        (size,) = _SIZE.unpack_from(frame, at)
        at += 4
        if size == 0:
            break
        stored = size & ~_STORED
        if stored > block_bytes:
            raise CorruptBatch(f"an lz4 block of {stored} bytes is larger than its frame's {block_bytes}")
        bound += stored if size & _STORED else min(block_bytes, stored * _MAX_RATIO)
        at += stored + (4 if flags & _BLOCK_CHECKSUM else 0)
    at += 4 if flags & _CONTENT_CHECKSUM else 0
    if at != len(frame):
        raise CorruptBatch(f"the batch's lz4 frame ends at byte {at} of {len(frame)}")
    return declared, bound


def _xxh32_short(data: bytes) -> int:
    """xxHash32 with seed 0 of fewer than 16 bytes: what a frame's header is checked with."""
    prime1, prime2, prime3, prime4, prime5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
    mask = 0xFFFFFFFF

    def rotated(value: int, bits: int) -> int:
        return (value << bits | value >> (32 - bits)) & mask

    assert len(data) < 16
    value = prime5 + len(data)
    words = len(data) // 4
    for (word,) in struct.iter_unpack("<I", data[: 4 * words]):
        value = rotated((value + word * prime3) & mask, 17) * prime4 & mask
    for byte in data[4 * words :]:
        value = rotated((value + byte * prime5) & mask, 11) * prime1 & mask
    value = (value ^ value >> 15) * prime2 & mask
    value = (value ^ value >> 13) * prime3 & mask
    return value ^ value >> 16
