"""The state machine of one partition's copy: replies in, requests out. Sans I/O, no clock.

    RESYNC ──(synced)──▶ PROBE ──(acknowledged where expected)──▶ STREAM
      ▲                    │                                        │
      └───── DRAIN ◀───────┴── error, unknown outcome, duplicate ───┘
    any ──▶ STOPPED: an integrity error, or a batch that cannot be copied; never left
    any ──▶ RETIRED: the partition is no longer ours; answers that are due are awaited; never left

RESYNC   ask the target where the copy stands (copier/resync.py); nothing is fetched or sent.
PROBE    one batch goes alone: only its acknowledgement shows that the broker has state for our producer id.
         Were a second one behind it and the first refused, the second would count as the first ever: loss.
STREAM   as many appends in flight as the caller likes, in order, on one connection.
DRAIN    an append failed: every answer that is due is awaited before the target is asked again, because a
         request of a closed connection may still execute.

Promises: P1 and P2 by sequence = offset (compare-and-append), P3 by RESYNC, P6 by `stop`.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import NamedTuple

from heliograph.copier.budget import Parcel, Share
from heliograph.copier.passage import corrupt, prepare
from heliograph.copier.recovery import stop_for
from heliograph.copier.spec import CopySpec
from heliograph.model.errors import CorruptBatch, HeliographError, PartitionStop
from heliograph.model.states import PartitionState, StopReason
from heliograph.wire.batch import split_batches
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.fetch import FetchedPartition


class Phase(Enum):
    RESYNC = auto()
    PROBE = auto()
    STREAM = auto()
    DRAIN = auto()
    STOPPED = auto()
    RETIRED = auto()


class Outgoing(NamedTuple):
    """A batch ready to be appended at exactly `base_offset`."""

    base_offset: int
    next_offset: int
    records: int
    batch: memoryview
    parcel: Parcel
    share: Share | None

    def let_go(self) -> None:
        """Its bytes are needed no more."""
        self.parcel.release(self.share)


class PartitionCopy:
    """`held_limit_bytes`: no more is fetched while this much waits here or is in flight."""

    def __init__(self, spec: CopySpec, held_limit_bytes: int) -> None:
        self.spec = spec
        self.phase = Phase.RESYNC
        self.stopped: PartitionStop | None = None
        self.trouble: HeliographError | None = None  # why the last resynchronisation was needed or failed
        self.next_offset: int | None = None  # durable on the target; None until the first resynchronisation
        self.source_end = 0
        self.share: Share | None = None  # of the target broker that leads the partition
        self.interruptions = 0  # how often what was known of the target went out of date
        self.records = 0
        self.size_bytes = 0
        self._held_limit_bytes = held_limit_bytes
        self._fetch_offset = 0
        self._heard = False  # the source has answered a fetch since the last resynchronisation
        self._queue: deque[Outgoing] = deque()
        self._in_flight: deque[Outgoing] = deque()
        self._held_bytes = 0
        self._obstacle: PartitionStop | None = None  # met in the source; stops us once all before it is there

    # -- what the caller may do now

    @property
    def wants_resync(self) -> bool:
        return self.phase is Phase.RESYNC

    @property
    def settled(self) -> bool:
        """No answer is due."""
        return not self._in_flight

    @property
    def flowing(self) -> bool:
        """It knows where it stands, and nothing is in its way."""
        return self.phase in (Phase.PROBE, Phase.STREAM) and self._obstacle is None

    @property
    def held_back(self) -> bool:
        """It would fetch if there were room."""
        enough = self._held_bytes >= self._held_limit_bytes or (self.share is not None and self.share.full)
        return self.flowing and enough

    def fetch_offset(self) -> int | None:
        """The offset to fetch from, None while nothing may be fetched."""
        return self._fetch_offset if self.flowing and not self.held_back else None

    def peek(self) -> Outgoing | None:
        """The batch that may be sent now."""
        if not self._queue or (self.phase is not Phase.STREAM and not self._may_probe()):
            return None
        return self._queue[0]

    def _may_probe(self) -> bool:
        return self.phase is Phase.PROBE and not self._in_flight

    def take(self) -> Outgoing:
        """Take what `peek` showed; its answer must come through `appended`, `refused` or `lost`."""
        outgoing = self._queue.popleft()
        self._in_flight.append(outgoing)
        return outgoing

    # -- replies

    def synced(self, next_offset: int) -> None:
        assert self.phase is Phase.RESYNC
        assert not self._queue
        assert not self._in_flight
        self.next_offset = self._fetch_offset = next_offset
        self._obstacle = None
        self._heard = False
        self.phase = Phase.PROBE

    def fetched(self, reply: FetchedPartition, asked_offset: int, parcel: Parcel) -> None:
        """Batches from the source; ignored if they are not what is wanted any more."""
        if not self.flowing or asked_offset != self._fetch_offset:
            return
        self._heard = True
        if not reply.records:
            self.trouble = None  # caught up: nothing is left that could be in trouble
        self.source_end = reply.last_stable_offset if reply.last_stable_offset >= 0 else reply.high_watermark
        try:
            self._enqueue(reply.records, parcel)
        except PartitionStop as stop:
            self._obstacle = stop
        except CorruptBatch as problem:
            self._obstacle = corrupt(problem)
        self._stop_at_obstacle()

    def _enqueue(self, records: memoryview, parcel: Parcel) -> None:
        for header, batch in split_batches(records):
            if header.next_offset <= self._fetch_offset:
                continue  # before what was asked for
            prepare(header, batch, self._fetch_offset, self.spec)
            parcel.hold(self.share)
            self._queue.append(
                Outgoing(
                    header.base_offset, header.next_offset, header.records_count, batch, parcel, self.share
                )
            )
            self._held_bytes += len(batch)
            self._fetch_offset = header.next_offset

    def interrupted(self, problem: HeliographError) -> None:
        """A broker did not answer as it should: where the copy stands is checked again."""
        self._resync_later(problem)

    def appended(self, base_offset: int) -> None:
        """The broker answered the oldest append with success, at this offset."""
        outgoing = self._settle()
        if self.phase is Phase.RETIRED and base_offset == outgoing.base_offset:
            self.next_offset = outgoing.next_offset
        elif self.phase not in (Phase.PROBE, Phase.STREAM):
            self._drained()
        elif base_offset == outgoing.base_offset:
            self._advance(outgoing)
        elif base_offset < outgoing.base_offset:
            self._resync_later(
                HeliographError(f"another copier had appended offset {outgoing.base_offset} before")
            )
        else:
            self.stop(_wrong_place(outgoing.base_offset, base_offset))

    def refused(self, code: int, message: str) -> None:
        """The broker answered the oldest append with an error."""
        outgoing = self._settle()
        if self.phase not in (Phase.PROBE, Phase.STREAM):
            self._drained()
            return
        stop = stop_for(code, message, outgoing.base_offset)
        if stop is not None:
            self.stop(stop)
        else:
            self._resync_later(
                HeliographError(f"append at {outgoing.base_offset}: {ErrorCode.name_of(code)}")
            )

    def lost(self, problem: HeliographError) -> None:
        """No answer to the oldest append will come: its outcome is unknown."""
        self._settle()
        self._resync_later(problem)

    def stop(self, stop: PartitionStop) -> None:
        self.stopped = self.stopped or stop
        self.interruptions += 1
        self.phase = Phase.STOPPED
        self._drop_queue()

    def retire(self) -> None:
        """Send and fetch no more."""
        self.interruptions += 1
        if self.phase is not Phase.STOPPED:
            self.phase = Phase.RETIRED
        self._drop_queue()

    # -- inside

    def _advance(self, outgoing: Outgoing) -> None:
        self.trouble = None
        self.next_offset = outgoing.next_offset
        self.records += outgoing.records
        self.size_bytes += len(outgoing.batch)
        self.phase = Phase.STREAM
        self._stop_at_obstacle()

    def _stop_at_obstacle(self) -> None:
        if self._obstacle is not None and not self._queue and not self._in_flight:
            self.stop(self._obstacle)

    def _resync_later(self, problem: HeliographError) -> None:
        if self.phase in (Phase.STOPPED, Phase.RETIRED):
            return
        self.interruptions += 1
        self.trouble = problem
        self._drop_queue()
        self.phase = Phase.DRAIN
        self._drained()

    def _drained(self) -> None:
        if self.phase is Phase.DRAIN and not self._in_flight:
            self.phase = Phase.RESYNC

    def _settle(self) -> Outgoing:
        outgoing = self._in_flight.popleft()
        self._held_bytes -= len(outgoing.batch)
        outgoing.let_go()
        return outgoing

    def _drop_queue(self) -> None:
        while self._queue:
            outgoing = self._queue.popleft()
            self._held_bytes -= len(outgoing.batch)
            outgoing.let_go()

    # -- for reports

    @property
    def state(self) -> PartitionState:
        if self.phase is Phase.STOPPED:
            return PartitionState.STOPPED
        if self.phase is Phase.RESYNC or self.next_offset is None:
            return PartitionState.ALIGNING
        caught_up = self._heard and self.next_offset >= self.source_end
        return PartitionState.CAUGHT_UP if caught_up else PartitionState.COPYING


def _wrong_place(expected: int, actual: int) -> PartitionStop:
    return PartitionStop(
        StopReason.WRONG_PLACE,
        f"the batch for offset {expected} was appended at {actual}: somebody else writes to the target",
        hint="only the link may write to a mirrored topic: stop the other writer, then delete the target topic to"
        " mirror it afresh",
    )
