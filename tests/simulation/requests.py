"""One script of requests, as data: what is asked of the model and of a real broker alike.

Owns the steps and their batches. Must not know who performs them: model_script.py and real_partition.py do.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from tests.wire.batches import make_batch

from .answers import NO_EPOCH
from .control_batch import TRANSACTIONAL, EndMarker
from .raw_batch import DAY_MS, HOUR_MS

MAX_MESSAGE_BYTES = 2_000
IDS = (0x4800000000000001, 0x4800000000000002, -1)
FLAWS = {"base_offset", "holes", "control", "crc", "large", "future", "no_sequence", "transactional"}
OLD_MS = 3 * DAY_MS
Seen = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Produce:
    """`in_transaction`: the batch is a transaction's, and the request says so; the flaw is that it does not."""

    producer_id: int = IDS[0]
    epoch: int = 0
    sequence: int = 0
    count: int = 1
    age_ms: int = 0
    flaw: str = ""
    in_transaction: bool = False

    def batch(self, now_ms: int) -> bytearray:
        timestamp = now_ms + 2 * HOUR_MS if self.flaw == "future" else now_ms - self.age_ms
        value = b"x" * (MAX_MESSAGE_BYTES if self.flaw == "large" else 10)
        transactional = self.in_transaction or self.flaw == "transactional"
        built = make_batch(
            [(None, value, ())] * self.count,
            base_offset=7 if self.flaw == "base_offset" else 0,
            timestamp=timestamp,
            attributes=0x20 if self.flaw == "control" else TRANSACTIONAL if transactional else 0,
            producer_id=self.producer_id,
            producer_epoch=self.epoch if self.producer_id >= 0 else -1,
            base_sequence=-1 if self.flaw == "no_sequence" or self.producer_id < 0 else self.sequence,
            last_offset_delta=self.count if self.flaw == "holes" else None,
        )
        if self.flaw == "crc":
            built[-1] ^= 1
        return built


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMarkers:
    """One WriteTxnMarkers request."""

    markers: tuple[EndMarker, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """DescribeProducers; log start, high watermark, last stable offset and log end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskWithEpoch:
    """Log end and a fetch by somebody whose leader epoch is behind (-1) or ahead (1)."""

    epochs_off: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    offset: int
    last_fetched_epoch: int = NO_EPOCH
    committed: bool = False
    max_bytes: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecords:
    before_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LetExpire:
    """The periodic check passes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Down and up again. Killed, a broker comes back with the log start that it noted last: it does once a minute."""

    killed: bool = True


Step = Produce | WriteMarkers | Look | AskWithEpoch | Fetch | DeleteRecords | LetExpire | Restart


def now_ms() -> int:
    return time.time_ns() // 1_000_000
