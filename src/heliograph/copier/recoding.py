"""A source batch that cannot go as it is gives its place in the queue to batches and gaps that can (P1, P2, P4, P5).

    [0 · 2 3 4 │ 5 6 ...          position 0: a piece [0, 1), a gap [1, 2) that compaction left; the batch stays behind
     ▲ the first batch            them, and is looked at again, from the position 2 on, when it is first again

Owns what takes its place, and the memory for that; passage.py says which batches it is for: those that hold the
position, have holes, log append time or an old message format, are larger than the target takes, or hold times that it
refuses. Must not know phases or leases. Offsets, keys, values and headers stay, and each record is one sequence number
of the target, however batches are cut: copiers of one partition may cut them differently.

Pieces are made when they are next, a few at a time, and never behind a gap: what waits for a gap to be filled holds no
memory. Where there is none, the batch waits for it; more than its broker's part is given to nobody but who has nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from itertools import takewhile

from heliograph.copier.batches import SourceBatch, SourceGap
from heliograph.copier.budget import Hold, Share, hold_merged, merging_room
from heliograph.copier.passage import MOST_HOLES, REENCODE, corrupt, too_many_holes, way_by_header
from heliograph.copier.source_queue import SourceQueue
from heliograph.copier.spec import PRODUCER_EPOCH, CopySpec
from heliograph.model.errors import CorruptBatch, DecompressionLimit, PartitionStop, ProtocolError
from heliograph.model.hints import THEN_RESUME
from heliograph.model.policy import Oversize
from heliograph.model.position import SEQUENCES
from heliograph.model.states import StopReason
from heliograph.wire.batch import MAGIC, BatchHeader, Codec, read_header
from heliograph.wire.batch_layout import CODEC_BITS
from heliograph.wire.kernels import loading
from heliograph.wire.kernels.loading import Kernels
from heliograph.wire.merge import Merged, goes_on, merge
from heliograph.wire.old_messages import plain_batch
from heliograph.wire.recode import Hole, Piece, Recoded, TooLarge, recode
from heliograph.wire.runs import PACKED_BYTES, PLAIN_BYTES, Run

MOST_JOINED = 1000  # batches of one: each is looked at in Python


class Awaited(Enum):
    MEMORY = auto()
    KERNELS = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What operators must hear of. `skipped`: a record that is too large for the target and is left out. `clamped`: how
    many records of [first_offset, next_offset) have another time than at the source."""

    first_offset: int
    next_offset: int
    skipped: TooLarge | None = None
    clamped: int = 0


class Recoding:
    """Of one partition. `awaits`: what the first batch waits for, if it does."""

    def __init__(self, spec: CopySpec) -> None:
        self._spec = spec
        self.awaits: Awaited | None = None

    def run(self, waiting: SourceQueue, next_offset: int, share: Share | None, now_ms: int) -> list[Changed]:
        """Until what is first is no batch to be recoded, or must wait."""
        changed: list[Changed] = []
        self.awaits = None
        while (first := waiting.to_recode(next_offset)) is not None:
            kernels = loading.loaded()
            if kernels is None:
                self._await_kernels(waiting)
            elif first.run.batches > 1:
                waiting.take_apart()
            elif not self._joined(kernels, waiting, next_offset, share, now_ms):
                changed += self._recoded(kernels, waiting, next_offset, share, now_ms)
            if self.awaits is not None:
                break
        return changed

    def _await_kernels(self, waiting: SourceQueue) -> None:
        loading.start()
        failure = loading.failure()
        if failure is None:
            self.awaits = Awaited.KERNELS
        else:
            waiting.stop_first(_no_kernels(failure))

    # -- one batch

    def _recoded(
        self, kernels: Kernels, waiting: SourceQueue, next_offset: int, share: Share | None, now_ms: int
    ) -> list[Changed]:
        first = waiting.head
        assert first is not None
        room_bytes = self._room(waiting, first, share)
        if room_bytes is None:
            self.awaits = Awaited.MEMORY
            return []
        try:
            made = _recode(kernels, first.run, waiting, next_offset, room_bytes)
        except CorruptBatch as problem:
            waiting.stop_first(corrupt(problem))
            return []
        except DecompressionLimit as problem:
            waiting.stop_first(_too_much(first.header, problem))
            return []
        if not made.parts:
            self.awaits = Awaited.MEMORY
            return []
        return self._place(waiting, first, made, share, now_ms)

    def _place(
        self, waiting: SourceQueue, first: SourceBatch, made: Recoded, share: Share | None, now_ms: int
    ) -> list[Changed]:
        """The parts into the queue, up to one that nothing can be made of."""
        parts: list[SourceBatch | SourceGap] = []
        changed: list[Changed] = []
        for part in made.parts:
            if isinstance(part, Piece):
                hold = hold_merged(first.hold.parcel.budget, len(part.batch), share)
                parts.append(self._source_batch(part, hold, now_ms))
                if part.clamped:
                    changed.append(
                        Changed(
                            first_offset=part.first_offset, next_offset=part.next_offset, clamped=part.clamped
                        )
                    )
                continue
            why = self._stop_for(part, waiting.takes.most_bytes)
            if why is not None and not parts:
                waiting.stop_first(why)
                return changed
            if parts and (why is not None or isinstance(part, TooLarge)):
                waiting.replace_first(parts, whole=False)  # it is met again when it is first
                return changed
            parts.append(SourceGap(part.first_offset, part.next_offset, contested=True))
            if isinstance(part, TooLarge):
                changed.append(
                    Changed(first_offset=part.first_offset, next_offset=part.next_offset, skipped=part)
                )
        waiting.replace_first(parts, whole=made.next_offset == first.header.next_offset)
        return changed

    def _stop_for(self, part: Hole | TooLarge, most_bytes: int) -> PartitionStop | None:
        if isinstance(part, Hole):
            too_many = part.next_offset - part.first_offset > MOST_HOLES
            return too_many_holes(part.first_offset, part.next_offset, self._spec) if too_many else None
        return None if self._spec.policy.oversize is Oversize.SKIP else too_large(part, most_bytes)

    def _source_batch(self, piece: Piece, hold: Hold, now_ms: int) -> SourceBatch:
        """It goes as it is from now on: what was clamped could not be known again among others. How old it is depends
        on its own records."""
        header = read_header(piece.batch)
        old = self._spec.is_perishable(header.max_timestamp, now_ms)
        return SourceBatch(Run(header, 1, piece.batch, False, True, old), hold, recoded=True)

    def _room(self, waiting: SourceQueue, first: SourceBatch, share: Share | None) -> int | None:
        """How many bytes may be taken now; None: too few to begin."""
        budget = first.hold.parcel.budget
        room_bytes = merging_room(budget, share)
        held_bytes = budget.merged_bytes if share is None else share.merged_bytes
        takes = waiting.takes
        if not held_bytes:
            return max(room_bytes, takes.most_bytes)  # whatever it takes: else nobody would ever copy it
        return room_bytes if room_bytes >= min(first.size_bytes, takes.batch_bytes) else None

    # -- small batches with log append time

    def _joined(
        self, kernels: Kernels, waiting: SourceQueue, next_offset: int, share: Share | None, now_ms: int
    ) -> bool:
        """Whether the first ones were made one batch with the times that they have: as many requests less."""
        first = waiting.head
        assert first is not None
        if first.header.base_offset != next_offset or not self._is_joinable(first.run, waiting):
            return False
        room_bytes = self._room(waiting, first, share)
        if room_bytes is None:
            self.awaits = Awaited.MEMORY
            return True
        limit_bytes = min(waiting.takes.batch_bytes, room_bytes)
        runs = [first.run._replace(mergeable=True)]
        size_bytes = first.size_bytes
        following = takewhile(lambda each: isinstance(each, SourceBatch), waiting.behind_first())
        for each in following:
            assert isinstance(each, SourceBatch)
            run = each.run._replace(mergeable=True)
            size_bytes += each.size_bytes
            if size_bytes > limit_bytes or len(runs) == MOST_JOINED:
                break
            if not self._is_joinable(run, waiting) or not goes_on(runs[-1], run):
                break
            runs.append(run)
        made = self._merge(kernels, runs, limit_bytes)
        if made is None:
            return False
        hold = hold_merged(first.hold.parcel.budget, made.batch.nbytes, share)
        first_offset = first.header.base_offset
        waiting.taken(made)
        header = read_header(made.batch)._replace(base_offset=first_offset)
        old = self._spec.is_perishable(header.max_timestamp, now_ms)
        run = Run(header, 1, made.batch, False, True, old)
        waiting.replace_first([SourceBatch(run, hold, recoded=True)], whole=False)
        return True

    def _is_joinable(self, run: Run, waiting: SourceQueue) -> bool:
        header = run.header
        codec = header.attributes & CODEC_BITS
        small_bytes = PACKED_BYTES if codec else PLAIN_BYTES
        return (
            header.magic == MAGIC
            and codec <= Codec.ZSTD
            and run.batches == 1
            and header.is_log_append_time
            and header.is_dense
            and not header.is_control
            and len(run.view) <= min(small_bytes, waiting.takes.batch_bytes)
            and not waiting.takes.clamps(header)
            and way_by_header(run, header.base_offset, self._spec, waiting.takes) is REENCODE
        )

    def _merge(self, kernels: Kernels, runs: list[Run], limit_bytes: int) -> Merged | None:
        try:
            return merge(
                kernels,
                runs,
                limit_bytes=limit_bytes,
                max_records=SEQUENCES,
                producer_id=self._spec.producer_id,
                producer_epoch=PRODUCER_EPOCH,
                base_sequence=0,
            )
        except ProtocolError:
            return None  # by itself it is told what is wrong with it


def _recode(kernels: Kernels, run: Run, waiting: SourceQueue, next_offset: int, room_bytes: int) -> Recoded:
    takes = waiting.takes
    plain, codec = plain_batch(kernels, run.header, run.view)

    def within(limit_bytes: int) -> Recoded:
        return recode(
            kernels,
            plain,
            codec,
            first_offset=next_offset,
            limit_bytes=limit_bytes,
            room_bytes=room_bytes,
            times=takes.times,
        )

    made = within(takes.batch_bytes)
    first = made.parts[0] if made.parts else None
    if isinstance(first, TooLarge) and first.size_bytes <= takes.most_bytes:
        # Batches are kept to less than what the target is known to take; but a record is as large as it is.
        made = within(first.size_bytes)
    return made


def too_large(record: TooLarge, most_bytes: int) -> PartitionStop:
    return PartitionStop(
        StopReason.TOO_LARGE,
        f"the record at offset {record.first_offset} makes a batch of {record.size_bytes} bytes, the target takes"
        f" {most_bytes}",
        hint="raise max.message.bytes (and segment.bytes) on the target topic, or set `oversize: skip` to leave such"
        " records out" + THEN_RESUME,
        first_offset=record.first_offset,
        next_offset=record.next_offset,
    )


def _too_much(header: BatchHeader, problem: DecompressionLimit) -> PartitionStop:
    """Under the code of what keeps it from going as it is."""
    reason, form = StopReason.TOO_LARGE, "the batch"
    if header.magic != MAGIC:
        reason, form = StopReason.OLD_FORMAT, f"the message of format {header.magic}"
    elif header.is_log_append_time:
        reason, form = StopReason.LOG_APPEND_TIME, "the batch with log append time"
    elif not header.is_dense:
        reason, form = StopReason.HOLES, "the batch with holes"
    return PartitionStop(
        reason,
        f"{form} at offset {header.base_offset} cannot go as it is, and is too large to be taken apart:"
        f" {problem.message}",
        hint="let producers write smaller batches; to go on behind this one, exclude the topic, or begin behind it",
    )


def _no_kernels(failure: Exception) -> PartitionStop:
    return PartitionStop(
        StopReason.KERNELS,
        f"a batch cannot go as it is, and this machine cannot make another of it: {failure}",
        hint="python -m heliograph.wire.kernels  # on the lane's machine: says what the compiled kernels lack",
    )
