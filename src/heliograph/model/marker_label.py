"""The label of a control marker that fills one offset of a target partition (P2, P4).

A broker refuses a marker whose producer epoch or coordinator epoch is lower than the last one of its producer id. So
the two epochs cross: of two attempts at one offset the later has the higher producer epoch and the lower coordinator
epoch. Whichever was appended first, the other one is refused, and one marker is a compare-and-append:

    producer id         0 | 7 bits 0x49 (0x4A: repair) | 24 bits source-cluster code | 32 bits topic hash + block
    producer epoch      the attempt
    coordinator epoch   16 bits offset in the block | 15 bits 2^15 - 1 - attempt

A block is 65,536 offsets: so many fit the coordinator epoch beside the attempts. An attempt must never be used twice
for one partition: equal labels are both appended. Who gives attempts out, and when to repair, is not known here.
"""

from __future__ import annotations

from typing import NamedTuple

from heliograph.model.producer_id import is_mirrored

BLOCK_OFFSETS = 1 << 16
ATTEMPTS = 1 << 15  # the producer epoch is an int16, and must not be negative

FILL_MARK = 0x49
REPAIR_MARK = 0x4A
_MARK_SHIFT = 56
_CODE_BITS = 0xFFFFFF << 32
_LOW_BITS = 0xFFFFFFFF
_EPOCHS = 1 << 31  # the coordinator epoch is an int32, and must not be negative


class MarkerLabel(NamedTuple):
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


class ReadLabel(NamedTuple):
    """What a label says: for which offset it was made, in which attempt, and whether to repair a fill."""

    offset: int
    attempt: int
    repair: bool


def marker_label(own_id: int, offset: int, attempt: int, *, repair: bool = False) -> MarkerLabel:
    """`own_id`: the link's producer id for the source topic (model/producer_id.py)."""
    assert 0 <= attempt < ATTEMPTS, attempt
    coordinator_epoch = offset % BLOCK_OFFSETS * ATTEMPTS + ATTEMPTS - 1 - attempt
    return MarkerLabel(marker_id(own_id, offset, repair=repair), attempt, coordinator_epoch)


def marker_id(own_id: int, offset: int, *, repair: bool = False) -> int:
    """The producer id of the markers in the offset's block."""
    assert is_mirrored(own_id), own_id
    assert offset >= 0, offset
    low = (own_id + offset // BLOCK_OFFSETS) & _LOW_BITS
    return (REPAIR_MARK if repair else FILL_MARK) << _MARK_SHIFT | own_id & _CODE_BITS | low


def is_marker_id(own_id: int, candidate: int) -> bool:
    """Whether it is of markers of the same link, of whatever block."""
    marked = candidate >> _MARK_SHIFT in (FILL_MARK, REPAIR_MARK)
    return marked and candidate & _CODE_BITS == own_id & _CODE_BITS


def block_end(offset: int) -> int:
    """The first offset of the next block: a request for markers must not go beyond it."""
    return (offset // BLOCK_OFFSETS + 1) * BLOCK_OFFSETS


def read_label(own_id: int, near_offset: int, label: MarkerLabel) -> ReadLabel | None:
    """What a label says that was found near this offset; None: it is not one of ours, or of a block that is neither
    the offset's nor a neighbour of it."""
    producer_id, producer_epoch, coordinator_epoch = label
    if not 0 <= coordinator_epoch < _EPOCHS:
        return None
    in_block, below = divmod(coordinator_epoch, ATTEMPTS)
    attempt = ATTEMPTS - 1 - below
    if attempt != producer_epoch:
        return None
    for offset in range(near_offset - BLOCK_OFFSETS, near_offset + BLOCK_OFFSETS + 1, BLOCK_OFFSETS):
        if offset < 0:
            continue
        for repair in (False, True):
            if producer_id == marker_id(own_id, offset, repair=repair):
                return ReadLabel(offset // BLOCK_OFFSETS * BLOCK_OFFSETS + in_block, attempt, repair)
    return None
