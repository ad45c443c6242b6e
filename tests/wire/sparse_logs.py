"""Logs with holes, as compaction leaves them, and dense batches of records and fillers, by the independent builder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from heliograph.wire.batch import BatchHeader, Codec, read_header
from heliograph.wire.codecs import compress

from .batches import ABORT, Record, encode_record, make_batch, make_control_batch
from .logs import DELETE_HORIZON, Seen, moments, record

LOG_APPEND_TIME = 0x08
EMPTY: Record = (None, None, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseBatch:
    """`records`: by offset delta, with their times. `hole`: what the caller is to say of it."""

    base_offset: int
    span: int
    records: Mapping[int, tuple[Record, int]]
    codec: Codec = Codec.NONE
    attributes: int = 0
    base_timestamp: int = 0
    control: bool = False
    hole: bool = False

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.span

    def encode(self) -> bytearray:
        if self.control:
            return make_control_batch(ABORT, base_offset=self.base_offset, producer_id=7)
        return make_batch(
            [record for record, _ in self.records.values()],
            base_offset=self.base_offset,
            timestamp=self.base_timestamp,
            timestamps=[moment for _, moment in self.records.values()],
            offset_deltas=list(self.records),
            last_offset_delta=self.span - 1,
            codec=self.codec,
            attributes=self.attributes,
            compress=lambda payload: compress(self.codec, payload),
        )

    def holds(self) -> dict[int, Seen]:
        """What there is to copy, by offset."""
        if self.control or self.hole:
            return {}
        stamped = max((moment for _, moment in self.records.values()), default=0)
        return {
            self.base_offset + delta: Seen(
                self.base_offset + delta,
                stamped if self.attributes & LOG_APPEND_TIME else moment,
                key,
                value,
                tuple(headers),
            )
            for delta, ((key, value, headers), moment) in self.records.items()
        }


@st.composite
def sparse_logs(draw: st.DrawFn, codecs: Sequence[Codec] = tuple(Codec)) -> list[SparseBatch]:
    """Batches in order, some far from each other; control batches, aborted ones, horizons and log append time."""
    log: list[SparseBatch] = []
    at = draw(st.sampled_from([0, 5, 2**40]))
    for _ in range(draw(st.integers(0, 4))):
        at += draw(st.sampled_from([0, 0, 1, 3, 70]))
        kind = draw(st.sampled_from(["data", "data", "data", "control", "aborted"]))
        span = 1 if kind == "control" else draw(st.sampled_from([1, 2, 5, 80]))
        deltas = sorted(draw(st.sets(st.integers(0, span - 1), max_size=4)))
        log.append(
            SparseBatch(
                base_offset=at,
                span=span,
                records={delta: (draw(record), draw(moments)) for delta in deltas},
                codec=draw(st.sampled_from(codecs)),
                attributes=draw(st.sampled_from([0, 0, LOG_APPEND_TIME, DELETE_HORIZON])),
                base_timestamp=draw(moments),
                control=kind == "control",
                hole=kind == "aborted",
            )
        )
        at = log[-1].next_offset
    return log


def batches_of(log: Iterable[SparseBatch]) -> list[tuple[BatchHeader, memoryview]]:
    views = [memoryview(batch.encode()) for batch in log]
    return [(read_header(view), view) for view in views]


def holes_of(log: Iterable[SparseBatch]) -> frozenset[int]:
    return frozenset(batch.base_offset for batch in log if batch.hole)


def held_by(log: Iterable[SparseBatch]) -> dict[int, Seen]:
    return {offset: seen for batch in log for offset, seen in batch.holds().items()}


def marked(delta: int) -> bytes:
    """A filler: an empty record with the mark that no producer sets, in the byte of its attributes behind its size."""
    encoded = encode_record(EMPTY, delta)
    return encoded[:1] + b"H" + encoded[2:]


def dense_payload(
    held: Mapping[int, Seen], first_offset: int, next_offset: int, filler_time_ms: int
) -> bytes:
    """The records of a dense batch before compression."""
    parts = []
    for offset in range(first_offset, next_offset):
        seen = held.get(offset)
        delta = offset - first_offset
        if seen is None:
            parts.append(marked(delta))
        else:
            wanted: Record = (seen.key, seen.value, seen.headers)
            parts.append(encode_record(wanted, delta, seen.timestamp - filler_time_ms))
    return b"".join(parts)


def without(batch: SparseBatch, delta: int) -> SparseBatch:
    """As compaction leaves it when it takes one more record."""
    return replace(batch, records={nth: each for nth, each in batch.records.items() if nth != delta})
