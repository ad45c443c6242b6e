"""Resynchronise: learn from the target where the copy stands (P3). Sans I/O.

A generator: it yields questions, is sent the answers, and returns where the copy stands, or raises
`PartitionStop`. It has no side effects but that a search is kept (copier/last_hole.py), so whoever asks may drop it at
any failure and begin again.

    producers ─▶ target log ─▶ producers ─▶ source log ─▶ target's tail ─▶ (admission) ─▶ the source's same
       ▲                          │ both readings must agree, and all of the log be readable
       └──────────────────────────┘

The rules, each paid for: the sequence is read before *and* after the log end, because a stale one can look
like a duplicate of another batch of equal size (success without appending). The last batch must be ours and
hold the source's records at the same offsets, or one foreign record would make us skip one of the source's. It need not
be one batch of the source's: copiers merge what waits, each as it comes. What is behind it must be markers of ours, at
offsets where the source holds nothing to copy (copier/tail.py). Who fills gaps by empty transactions fences all others
off before anything is read: what they had begun would come later (copier/transaction_fills.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from heliograph.cluster.empty_transactions import FillProducer
from heliograph.cluster.log_reads import LogSpan
from heliograph.cluster.producer_states import ProducerState
from heliograph.copier.anchor import compare_anchor
from heliograph.copier.dense_anchor import compare_dense_anchor
from heliograph.copier.last_hole import HoleSearch, last_hole_end
from heliograph.copier.own_markers import OwnMarkers
from heliograph.copier.passage import corrupt
from heliograph.copier.questions import (
    Asking,
    FenceFills,
    LoadKernels,
    ReadProducers,
    ReadSourceBatch,
    ReadSourceLog,
    ReadTargetLog,
    Unsettled,
)
from heliograph.copier.sealing import check_sealed, until_old_enough
from heliograph.copier.spec import PRODUCER_EPOCH, CopySpec
from heliograph.copier.stops import stamped
from heliograph.copier.stray_fillers import holds_filler, stray_fillers_end
from heliograph.copier.tail import (
    NO_MARKS,
    ForeignMarker,
    Marks,
    Tail,
    check_gap,
    marks_of,
    read_tail,
)
from heliograph.model.admission import (
    Admitted,
    LastBatch,
    PartitionFacts,
    Refused,
    admit_partition,
    goal_of,
)
from heliograph.model.errors import CorruptBatch, DecompressionLimit, PartitionStop
from heliograph.model.fill_way import FillWay
from heliograph.model.hints import AFRESH
from heliograph.model.policy import Isolation
from heliograph.model.position import Position
from heliograph.model.states import StopReason
from heliograph.wire.batch import BatchHeader
from heliograph.wire.kernels.loading import loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """Where the copy stands. `state_ms`: the record time by which the broker remembers our producer id, None where it
    does not. `source_epoch`: the leader epoch of the source's last batch that the target holds too, -1 if unknown.
    `marks`: what markers that filled gaps here have used up. `align_to`: up to there the target holds fillers, or is to
    be given them (copier/alignment.py). `fillers_end`: up to there are fillers that came back
    (copier/stray_fillers.py). `lost_to`: up to there the source's offsets are gone, and that is accepted
    (copier/losses.py). `build_to`: where the last hole ends that compaction, or a loss, made at the source, for a
    topic that is being built (copier/building.py); None: there is none behind the position."""

    position: Position
    state_ms: int | None = None
    source_epoch: int = -1
    marks: Marks = NO_MARKS
    align_to: int | None = None
    fillers_end: int | None = None
    lost_to: int | None = None
    build_to: int | None = None


def resynchronise(
    spec: CopySpec, *, gaps_filled: bool = False, search: HoleSearch | None = None
) -> Asking[Synced]:
    """`gaps_filled`: offsets of this partition may have been filled with markers, also where none can be seen any
    more. `search`: how far the source's last hole was searched for before, as its leader has the log."""
    search = search or HoleSearch()
    fenced = spec.fill_way is FillWay.TRANSACTIONS
    producer = (yield from _fence()) if fenced else None
    try:
        return (yield from _resynchronise(spec, producer, search, gaps_filled=gaps_filled))
    except ForeignMarker:
        if fenced:
            raise
    # Perhaps gaps were filled in the other way before. The log may end elsewhere after this.
    producer = yield from _fence()
    return (yield from _resynchronise(spec, producer, search, gaps_filled=gaps_filled))


def _fence() -> Asking[FillProducer | None]:
    answer = yield FenceFills()
    assert answer is None or isinstance(answer, FillProducer)
    return answer


def _resynchronise(
    spec: CopySpec, producer: FillProducer | None, search: HoleSearch, *, gaps_filled: bool
) -> Asking[Synced]:
    producers, target = yield from _settled(spec)
    source = yield from _readable_source(target.end)
    own = producers.get(spec.producer_id)
    own_markers = OwnMarkers(producer.producer_id if producer else None, producers.keys())
    tail = yield from read_tail(spec, target, own_markers, enough_at=source.start if own else 0)
    if tail.data is not None and tail.data[0].is_log_append_time:
        raise stamped(tail.data[0].base_offset)
    marks = marks_of(spec, producers, target.end)
    goal = goal_of(spec.begin_at, source.start)
    fillers_last = tail.data is not None and holds_filler(tail.data)
    building = spec.builds and target.end > goal  # fillers are among its records then
    if building:
        fillers_last = False
    facts = PartitionFacts(
        source_start=source.start,
        source_end=source.end,
        target_start=target.start,
        target_end=target.end,
        producer_id=spec.producer_id,
        last_batch=_signature(tail.data[0]) if tail.data else None,
        last_sequence=own.last_sequence if own else None,
        gaps_filled=gaps_filled or marks.any or tail.markers_from < target.end,
        ends_in_markers=tail.markers_from < target.end,
        last_is_filler=fillers_last and (yield from _aligns(tail, source, target, goal)),
        aligns=spec.aligns,
        begin_at=spec.begin_at,
        accepted_loss=spec.accepted_loss,
        on_loss=spec.policy.on_loss,
    )
    verdict = admit_partition(facts)
    if isinstance(verdict, Refused):
        raise verdict.as_stop()
    source_epoch = -1
    if tail.data is not None and not (fillers_last and tail.data[0].next_offset <= goal):
        compare = compare_dense_anchor if building else compare_anchor
        source_epoch = yield from compare(spec, tail.data, source, target)
    if tail.markers_from < target.end:
        source_epoch = yield from check_gap(spec, source, tail.markers_from, target.end)
    assert isinstance(verdict, Admitted)
    fillers_end = None if spec.builds else (yield from stray_fillers_end(goal, target, tail))
    build_to = (
        (yield from _last_hole(spec, search, source, max(verdict.position.source, goal)))
        if spec.builds
        else None
    )
    if spec.builds and build_to is None:
        build_to = verdict.lost_to  # a hole, too, and all that there is to put a marker into
    if spec.builds and verdict.align_to is None:
        yield from _seal(target, tail, None if build_to is None else build_to - verdict.position.source)
    return Synced(
        position=verdict.position,
        state_ms=own.last_timestamp if own else None,
        source_epoch=source_epoch,
        marks=marks,
        align_to=verdict.align_to,
        fillers_end=fillers_end if verdict.align_to is None else None,
        lost_to=verdict.lost_to,
        build_to=build_to,
    )


def _seal(target: LogSpan, tail: Tail, left: int | None) -> Asking[None]:
    """`left`: how many offsets are to be filled still; None: nothing is."""
    kernels = loaded()
    assert kernels is not None, "loaded for the last hole"
    if left is None:
        yield from check_sealed(kernels, target, tail)
    elif left == 1:
        yield from until_old_enough()


def _last_hole(spec: CopySpec, search: HoleSearch, source: LogSpan, first_offset: int) -> Asking[int | None]:
    yield LoadKernels()  # without them no batch of records and fillers can be made
    kernels, committed = loaded(), spec.policy.isolation is Isolation.READ_COMMITTED
    assert kernels is not None
    end = source.high_watermark
    try:
        return (yield from last_hole_end(kernels, search, first_offset, end, committed=committed))
    except (CorruptBatch, DecompressionLimit) as problem:
        raise corrupt(problem) from problem


def _aligns(tail: Tail, source: LogSpan, target: LogSpan, goal: int) -> Asking[bool]:
    """Whether fillers that are the target's last data are an alignment's. Above the goal they may be records of the
    source, which is then aligned itself and has shown them to us; if it is not, the goal was another one."""
    assert tail.data is not None
    if tail.markers_from < target.end:
        return False
    if not goal < target.end <= source.end:
        return True
    theirs = yield ReadSourceBatch(max(tail.data[0].base_offset, source.start))
    return not (isinstance(theirs, tuple) and holds_filler(theirs))


def _signature(header: BatchHeader) -> LastBatch:
    return LastBatch(producer_id=header.producer_id, last_sequence=header.last_sequence)


def _settled(spec: CopySpec) -> Asking[tuple[Mapping[int, ProducerState], LogSpan]]:
    while True:
        before = yield ReadProducers()
        target = yield ReadTargetLog()
        after = yield ReadProducers()
        assert isinstance(target, LogSpan)
        assert isinstance(before, Mapping)
        assert isinstance(after, Mapping)
        _check_epoch(before.get(spec.producer_id), spec)
        agree = before.get(spec.producer_id) == after.get(spec.producer_id)
        marks = [marks_of(spec, each, target.end) for each in (before, after)]
        if agree and marks[0] == marks[1] and target.high_watermark == target.end:
            return after, target
        yield Unsettled()


def _readable_source(target_end: int) -> Asking[LogSpan]:
    """The source's log, once consumers may read up to where the target ends.

    A new leader's high watermark lags for a moment behind what the old one had shown.
    """
    while True:
        source = yield ReadSourceLog()
        assert isinstance(source, LogSpan)
        if not source.high_watermark < target_end <= source.end:
            return source
        yield Unsettled()


def _check_epoch(producer: ProducerState | None, spec: CopySpec) -> None:
    if producer is not None and producer.epoch != PRODUCER_EPOCH:
        raise PartitionStop(
            StopReason.FOREIGN,
            f"somebody else uses this link's producer id {spec.producer_id} with epoch {producer.epoch}",
            hint=f"only this link may write with that id: find the other writer of the target topic; {AFRESH}",
        )
