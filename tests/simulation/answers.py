"""What the model of a broker answers, as values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .leader_epochs import EpochEnd
from .replica import Stored

NO_EPOCH = -1


class Led(NamedTuple):
    """Who leads, as somebody believes."""

    leader: int
    epoch: int


class Answer(NamedTuple):
    error: int
    offset: int = -1


class Waiting(NamedTuple):
    """Appended, or a duplicate: acknowledged once all in-sync replicas hold everything below `required`."""

    node: int
    epoch: int
    base_offset: int
    required: int
    append_time: int = -1  # of a duplicate, and of a batch that the broker has written its own time into


class Deleting(NamedTuple):
    """The leader's log starts there now: acknowledged once the logs of all replicas that are up do."""

    node: int
    epoch: int
    offset: int


class Fetched(NamedTuple):
    """`aborted`: of a read_committed fetch, the producer id and first offset of each transaction that was aborted."""

    error: int
    high_watermark: int = -1
    start: int = -1
    batches: Sequence[Stored] = ()
    diverging: EpochEnd | None = None
    stable_end: int = -1
    aborted: tuple[tuple[int, int], ...] = ()


class ProducerView(NamedTuple):
    epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int = -1
    transaction_start: int = -1
