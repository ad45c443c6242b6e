"""Which way a source batch goes. Today there is one way, passing through; whatever cannot take it stops the
partition with what was met and at which offset (P6). No I/O, no state."""

from __future__ import annotations

from heliograph.copier.spec import PRODUCER_EPOCH, CopySpec
from heliograph.model.errors import CorruptBatch, PartitionStop
from heliograph.model.producer_id import mirrored_from
from heliograph.model.states import StopReason
from heliograph.wire.batch import MAGIC, BatchHeader, rewrite, verify_crc

_NOT_YET = "exclude the topic for now: copying this is not built yet"


def prepare(header: BatchHeader, batch: memoryview, next_offset: int, spec: CopySpec) -> None:
    """Make a fetched batch ready to be appended at `next_offset`, in place, or raise `PartitionStop`.

    The checksum is verified before it is computed anew: a corrupt batch never gets a valid one.
    """
    stop = _obstacle(header, next_offset, spec)
    if stop is not None:
        raise stop
    try:
        verify_crc(header, batch)
    except CorruptBatch as problem:
        raise corrupt(problem) from problem
    rewrite(
        batch,
        producer_id=spec.producer_id,
        producer_epoch=PRODUCER_EPOCH,
        base_sequence=spec.sequence_of(header.base_offset),
    )


def corrupt(problem: CorruptBatch) -> PartitionStop:
    return PartitionStop(
        StopReason.CORRUPT,
        f"the source holds a corrupt batch: {problem.message}",
        hint="check the source broker's disk; if another replica is whole, move the leadership there",
    )


def _obstacle(header: BatchHeader, next_offset: int, spec: CopySpec) -> PartitionStop | None:
    at = header.base_offset
    if header.magic != MAGIC:
        return _stop(StopReason.OLD_FORMAT, f"a message of format {header.magic} at offset {at}")
    if header.is_control:
        return _stop(StopReason.CONTROL_BATCH, f"a transaction's marker at offset {at}")
    if header.is_transactional:
        return _stop(StopReason.TRANSACTIONAL_BATCH, f"a transactional batch at offset {at}")
    if header.is_log_append_time:
        return _stop(StopReason.LOG_APPEND_TIME, f"a batch with log append time at offset {at}")
    if at > next_offset:
        return _stop(StopReason.HOLES, f"no records at offsets [{next_offset}, {at})")
    if at < next_offset:
        return _stop(
            StopReason.HOLES, f"a batch [{at}, {header.next_offset}) around the position {next_offset}"
        )
    if not header.is_dense:
        return _stop(StopReason.HOLES, f"a batch with holes at offsets [{at}, {header.next_offset})")
    if mirrored_from(header.producer_id, spec.target_cluster_id):
        return PartitionStop(
            StopReason.LOOP,
            f"the batch at offset {at} was mirrored from the target itself",
            hint="two links mirror one topic in both directions: exclude it from one of them",
        )
    if header.size_bytes > spec.max_batch_bytes:
        return PartitionStop(
            StopReason.TOO_LARGE,
            f"the batch at offset {at} has {header.size_bytes} bytes, the target takes {spec.max_batch_bytes}",
            hint="raise max.message.bytes on the target topic, then start again",
        )
    return None


def _stop(reason: StopReason, met: str) -> PartitionStop:
    return PartitionStop(reason, f"the source holds {met}", hint=_NOT_YET)
