"""The state machine of one partition's copy: replies in, requests out. Sans I/O; the time is an argument.

    RESYNC ──(synced)──▶ PROBE ──(acknowledged where expected)──▶ STREAM
      ▲                    │                                        │
      └───── DRAIN ◀───────┴── error, unknown outcome, duplicate ───┘
    any ──▶ STOPPED: an integrity error, or a batch that cannot be copied; never left
    any ──▶ RETIRED: the partition is no longer ours; answers that are due are awaited; never left

RESYNC   ask the target where the copy stands (copier/resync.py); nothing is fetched or sent.
PROBE    one batch goes alone: only its acknowledgement shows that the broker has state for our producer id.
         Were a second one behind it and the first refused, the second would count as the first ever: loss.
STREAM   as many appends in flight as the caller likes, in order, on one connection.
         Back to PROBE whenever the broker may have forgotten the id: behind a perishable batch, and after a long
         idleness.
DRAIN    an append failed: every answer that is due is awaited before the target is asked again, because a
         request of a closed connection may still execute.

A batch of records so old that the broker may forget the id right after it is *perishable*: nothing compares a second
copy of it. It goes alone, under an exclusive lease (copier/lease.py), and only once every append that the last holder
of the partition, or we ourselves, may still have on its way is over (`cleared`). Then the target is asked again.

Promises: P1 and P2 by sequence = offset (compare-and-append), P3 by RESYNC, P6 by `stop`.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import NamedTuple

from heliograph.copier.budget import Parcel, Share
from heliograph.copier.passage import corrupt, prepare
from heliograph.copier.recovery import after_append
from heliograph.copier.resync import Synced
from heliograph.copier.spec import CopySpec
from heliograph.model.errors import CorruptBatch, HeliographError, LineLeft, PartitionStop
from heliograph.model.events import Event, Trouble
from heliograph.model.states import BoundBy, PartitionState, StopReason
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
    perishable: bool
    max_timestamp: int
    batch: memoryview
    parcel: Parcel
    share: Share | None

    def let_go(self) -> None:
        """Its bytes are needed no more."""
        self.parcel.release(self.share)


class PartitionCopy:
    """`held_limit_bytes`: no more is fetched while this much waits here or is in flight.

    `clear`: nobody, not even we, can have an append of this partition on its way.
    """

    def __init__(self, spec: CopySpec, held_limit_bytes: int, *, clear: bool = True) -> None:
        self.spec = spec
        self.phase = Phase.RESYNC
        self.stopped: PartitionStop | None = None
        self.trouble: Trouble | None = None  # why the last resynchronisation was needed or failed
        self.clear = clear
        self.losses = 0  # appends whose outcome nobody will tell
        self.target_topic_id = b""  # empty where the target has none
        self.stale = False  # metadata must be read again before the target is asked
        self.notices: list[
            Trouble
        ] = []  # what an operator must hear of though it is over; the reporter empties it
        self.next_offset: int | None = None  # durable on the target; None until the first resynchronisation
        self.source_end = 0
        self.source_watermark = 0
        self.source_epoch = -1  # the leader epoch of the last batch fetched, or compared with the target's
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
        self._state_ms: int | None = (
            None  # the record time by which the broker remembers our id; None: it does not
        )
        self._diverged_at: int | None = None  # the source no longer holds what it held from here on

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
        """The batch that may be sent now; a perishable one under an exclusive lease only."""
        if not self._queue or self.phase not in (Phase.PROBE, Phase.STREAM):
            return None
        head = self._queue[0]
        alone = self.phase is Phase.PROBE or head.perishable
        if (alone and self._in_flight) or (head.perishable and not self.clear):
            return None
        return head

    @property
    def wants_exclusion(self) -> bool:
        """A perishable batch is on its way, or will be."""
        return any(out.perishable for out in self._queue) or any(out.perishable for out in self._in_flight)

    @property
    def awaits_clearance(self) -> bool:
        """A perishable batch is next, and an append of somebody may still be on its way."""
        return bool(self._queue) and self._queue[0].perishable and not self.clear

    def take(self) -> Outgoing:
        """Take what `peek` showed; its answer must come through `appended`, `refused` or `lost`."""
        outgoing = self._queue.popleft()
        self._in_flight.append(outgoing)
        if outgoing.perishable:
            self.phase = Phase.PROBE  # nothing goes behind it, fresh or not, before it is acknowledged
        return outgoing

    # -- replies

    def synced(self, found: Synced) -> None:
        assert self.phase is Phase.RESYNC
        assert not self._queue
        assert not self._in_flight
        if self._diverged_at is not None and found.next_offset > self._diverged_at:
            self.stop(_diverged(self._diverged_at, found.next_offset))
            return
        if self.next_offset is not None and found.next_offset < self.next_offset:
            self.notices.append(_truncated(self.next_offset, found.next_offset))
        self.next_offset = self._fetch_offset = found.next_offset
        self.source_epoch = found.source_epoch
        self._state_ms = found.state_ms
        self._obstacle = None
        self._diverged_at = None
        self._heard = False
        self.phase = Phase.PROBE

    def fetched(self, reply: FetchedPartition, asked_offset: int, parcel: Parcel, now_ms: int) -> None:
        """Batches from the source; ignored if they are not what is wanted any more."""
        if not self.flowing or asked_offset != self._fetch_offset:
            return
        if reply.diverging_epoch is not None:
            self._diverge(*reply.diverging_epoch)
            return
        self._heard = True
        if not reply.records and not self._queue and not self._in_flight:
            self.trouble = None  # caught up: nothing is left that could be in trouble
        self.source_watermark = reply.high_watermark
        self.source_end = reply.last_stable_offset if reply.last_stable_offset >= 0 else reply.high_watermark
        if not self._in_flight and not self._queue:
            self._doubt_state(now_ms)
        try:
            self._enqueue(reply.records, parcel, now_ms)
        except PartitionStop as stop:
            self._obstacle = stop
        except CorruptBatch as problem:
            self._obstacle = corrupt(problem)
        self._stop_at_obstacle()

    def _diverge(self, epoch: int, end_offset: int) -> None:
        self._diverged_at = end_offset
        problem = f"the source was truncated: its leader epoch {epoch} ends at {end_offset}"
        self._resync_later(Trouble(Event.SOURCE_DIVERGED, problem))

    def _doubt_state(self, now_ms: int) -> None:
        """The broker may have forgotten us while nothing was written: the next batch goes alone again."""
        if self._state_ms is None or self.spec.is_perishable(self._state_ms, now_ms):
            self.phase = Phase.PROBE

    def _enqueue(self, records: memoryview, parcel: Parcel, now_ms: int) -> None:
        for header, batch in split_batches(records):
            if header.next_offset <= self._fetch_offset:
                continue  # before what was asked for
            prepare(header, batch, self._fetch_offset, self.spec)
            parcel.hold(self.share)
            self._queue.append(
                Outgoing(
                    header.base_offset,
                    header.next_offset,
                    header.records_count,
                    self.spec.is_perishable(header.max_timestamp, now_ms),
                    header.max_timestamp,
                    batch,
                    parcel,
                    self.share,
                )
            )
            self.source_epoch = header.leader_epoch
            self._held_bytes += len(batch)
            self._fetch_offset = header.next_offset

    def interrupted(self, trouble: Trouble, *, stale: bool = False) -> None:
        """A broker did not answer as it should: where the copy stands is checked again."""
        self._resync_later(trouble, stale=stale)

    def cleared(self) -> None:
        """Whatever was on its way is over: what is there now stays. The target is asked again: what it said before
        may be out of date, whether or not a batch waits already."""
        self.clear = True
        self._resync_later(Trouble(Event.LEASE_WAIT, "older appends are over by now"))

    def appended(self, base_offset: int) -> None:
        """The broker answered the oldest append with success, at this offset."""
        outgoing = self._settle()
        if base_offset > outgoing.base_offset:
            self.stop(_wrong_place(outgoing.base_offset, base_offset))
        elif self.phase is Phase.RETIRED and base_offset == outgoing.base_offset:
            self.next_offset = outgoing.next_offset
        elif self.phase not in (Phase.PROBE, Phase.STREAM):
            self._drained()
        elif base_offset == outgoing.base_offset:
            self._advance(outgoing)
        else:
            self._resync_later(
                Trouble(Event.RACED, f"another copier had appended offset {outgoing.base_offset} before")
            )

    def refused(self, code: int, message: str) -> None:
        """The broker answered the oldest append with an error."""
        outgoing = self._settle()
        if self.phase not in (Phase.PROBE, Phase.STREAM):
            self._drained()
            return
        demand = after_append(code, message, outgoing.base_offset)
        if isinstance(demand, PartitionStop):
            self.stop(demand)
        else:
            words = f"append at {outgoing.base_offset}: {ErrorCode.name_of(code)}"
            self._resync_later(Trouble(demand.event, words), stale=demand.refresh)

    def lost(self, problem: HeliographError) -> None:
        """No answer to the oldest append will come: its outcome is unknown, and it may still execute. A fresh one
        too must be over before a perishable batch makes the broker forget what it would compare it with."""
        self._settle()
        self.clear = False
        self.losses += 1
        if isinstance(problem, LineLeft):
            self._resync_later(self.trouble)  # our own doing, and mended at once: nothing to tell
        else:
            self._resync_later(Trouble(Event.BROKER_AWAY, problem.message), stale=True)

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
        self._state_ms = outgoing.max_timestamp
        self.phase = Phase.PROBE if outgoing.perishable else Phase.STREAM
        self._stop_at_obstacle()

    def _stop_at_obstacle(self) -> None:
        if self._obstacle is not None and not self._queue and not self._in_flight:
            self.stop(self._obstacle)

    def _resync_later(self, trouble: Trouble | None, *, stale: bool = False) -> None:
        if self.phase in (Phase.STOPPED, Phase.RETIRED):
            return
        self.interruptions += 1
        self.trouble = trouble
        self.stale = self.stale or stale
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
    def bound_by(self) -> BoundBy | None:
        """What the copy waits for; None while it does not flow, or must not send yet."""
        if not self.flowing or self.awaits_clearance:
            return None
        if self._in_flight or (self.share is not None and self.share.full):
            return BoundBy.TARGET
        return BoundBy.LANE if self._queue else BoundBy.SOURCE

    @property
    def state(self) -> PartitionState:
        if self.phase is Phase.STOPPED:
            return PartitionState.STOPPED
        if self.phase is Phase.RESYNC or self.next_offset is None:
            return PartitionState.ALIGNING
        caught_up = self._heard and self.next_offset >= self.source_end
        return PartitionState.CAUGHT_UP if caught_up else PartitionState.COPYING


def _truncated(known: int, found: int) -> Trouble:
    return Trouble(
        Event.TARGET_TRUNCATED,
        f"the target lost acknowledged offsets [{found}, {known}): they are copied again",
    )


def _diverged(diverged_at: int, target_end: int) -> PartitionStop:
    return PartitionStop(
        StopReason.DIVERGED,
        f"the source was truncated at {diverged_at}, the target holds its former offsets [{diverged_at}, {target_end})",
        hint="records that consumers of the target may have read are gone from the source: compare both topics, then"
        " delete the target topic to mirror it afresh",
    )


def _wrong_place(expected: int, actual: int) -> PartitionStop:
    return PartitionStop(
        StopReason.WRONG_PLACE,
        f"the batch for offset {expected} was appended at {actual}: somebody else writes to the target",
        hint="only the link may write to a mirrored topic: stop the other writer, then delete the target topic to"
        " mirror it afresh",
    )
