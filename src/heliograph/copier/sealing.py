"""Whether brokers will clean all fillers of a partition that is being built (copier/building.py): none may be in the
segment that is written, which cleaners leave alone. Sans I/O.

    │ f f 7 f f 10 │ f f f 14 f │ M      M, the marker behind the last filler, bears the broker's time: it begins a
                     ▲                   segment if that is later by `segment.ms` than the first batch of the last one

Fillers are dated back, but records have their own times: one that was written just now, or that is dated ahead, may be
in that first batch. So the marker waits until the target's newest record is old enough; and when it is there, the
target is asked whether it begins a segment. A broker answers a fetch from one segment, so that shows. Where it does
not, by a record that is dated far ahead, no broker would ever remove the last fillers: the partition stops at once.
"""

from __future__ import annotations

from datetime import UTC, datetime

from heliograph.cluster.list_offsets import DatedRecord
from heliograph.cluster.log_reads import LogSpan
from heliograph.copier.find_filler import last_filler
from heliograph.copier.questions import Asking, AwaitTime, ReadTargetSegmentEnd, ReadTargetSince
from heliograph.copier.tail import Tail
from heliograph.model.errors import PartitionStop
from heliograph.model.hints import AFRESH
from heliograph.model.states import StopReason
from heliograph.wire.kernels.loading import Kernels

SEGMENT_MS = 1048  # of a topic that is being built (controller/build_settings.py)
CLOCKS_DIFFER_MS = (
    5_000  # ours and the broker's: what they may differ by, and a marker still begins a segment
)
# What is dated further ahead is not waited for: brokers of today take no record that is dated later than this.
MOST_AHEAD_MS = 3_600_000


def until_old_enough() -> Asking[None]:
    """Before the last marker is written."""
    while True:
        newest = yield ReadTargetSince(SEGMENT_MS + CLOCKS_DIFFER_MS)
        assert newest is None or isinstance(newest, DatedRecord)
        if newest is None or not (yield AwaitTime(newest, MOST_AHEAD_MS)):
            return


def check_sealed(kernels: Kernels, target: LogSpan, tail: Tail) -> Asking[None]:
    """Of a target that is filled. Nearly always the first question is enough: its markers begin a segment."""
    if tail.data is None or tail.markers_from == target.end:
        return
    segment_end = yield ReadTargetSegmentEnd(tail.markers_from - 1)
    if segment_end != target.end:
        return
    filler = yield from last_filler(kernels, target.start, tail.markers_from)
    if filler is None or (yield ReadTargetSegmentEnd(filler)) != target.end:
        return
    newest = yield ReadTargetSince(0)
    assert newest is None or isinstance(newest, DatedRecord)
    raise _unsealed(filler, newest)


def _unsealed(filler: int, newest: DatedRecord | None) -> PartitionStop:
    ahead = "the clocks of producers, of this machine and of the target's brokers differ"
    if newest is not None:
        date = datetime.fromtimestamp(min(newest.time_ms, _LAST_MS) / 1000, UTC)
        ahead = f"the record at offset {newest.offset} is dated {date:%Y-%m-%d %H:%M:%S} UTC, which is still to come"
    return PartitionStop(
        StopReason.BUILD,
        f"brokers would never remove the filler at offset {filler} of the target: it is in the segment that is written,"
        f" and the marker behind it has begun no other one; {ahead}",
        hint="set the clocks right, or write the keys of records that are dated ahead anew at the source; when it has"
        f" compacted the old ones, {AFRESH}",
        first_offset=filler,
    )


_LAST_MS = 253_402_300_799_000  # the end of the year 9999: what comes later has no name
