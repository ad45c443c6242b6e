"""Logs of a stopped broker that are cut short or have a byte turned, as a disk does it to them.

Owns where batches are in a segment's file. Must not know any code of the mirror.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from .moved_log import CHECKPOINTS, forget_in_checkpoint

_BASE_AND_LENGTH = struct.Struct(">qi")


def truncate_log(directory: Path, topic: str, next_offset: int) -> None:
    """The log of partition 0 ends there; it must be where a batch begins."""
    segment = _segment(directory, topic)
    (cut_at,) = [place for place, base_offset in _batches(segment) if base_offset == next_offset]
    with segment.open("r+b") as file:
        file.truncate(cut_at)
    _forget(directory, topic)


def turn_a_byte(directory: Path, topic: str, offset: int) -> None:
    """In the records of the batch that begins at this offset. Done twice, it is whole again."""
    segment = _segment(directory, topic)
    (place,) = [place for place, base_offset in _batches(segment) if base_offset == offset]
    data = bytearray(segment.read_bytes())
    data[place + 80] ^= 0xFF
    segment.write_bytes(data)


def _segment(directory: Path, topic: str) -> Path:
    (segment,) = (directory / "data" / f"{topic}-0").glob("*.log")
    return segment


def _batches(segment: Path) -> Iterator[tuple[int, int]]:
    """Where each begins in the file, and its first offset."""
    data, place = segment.read_bytes(), 0
    while place + _BASE_AND_LENGTH.size <= len(data):
        base_offset, length = _BASE_AND_LENGTH.unpack_from(data, place)
        if length <= 0:
            return
        yield place, base_offset
        place += _BASE_AND_LENGTH.size + length


def _forget(directory: Path, topic: str) -> None:
    """What the broker knows of the log beside its records."""
    log = directory / "data" / f"{topic}-0"
    for path in log.iterdir():
        if path.suffix in (".index", ".timeindex", ".snapshot", ".txnindex"):
            path.unlink()
    for name in CHECKPOINTS:
        forget_in_checkpoint(directory / "data" / name, topic)
