"""The state of one partition's copy, and its only owner: replies in, appends out. Sans I/O; the time is an argument.

The phases and what leads from one to the next are a table (copier/phases.py). Nobody else writes a field of this class.

    source batches, as they came ──▶ queue ──(its way is decided when it is taken)──▶ in flight ──▶ durable position

Back to PROBE whenever the broker may have forgotten our producer id: behind a perishable batch, and after a long
idleness. A batch of records so old that the broker may forget the id right after it is *perishable*: nothing compares a
second copy of it. It goes alone, under an exclusive lease (copier/lease.py), and only once every append that the last
holder of the partition, or we ourselves, may still have on its way is over (`cleared`). Then the target is asked again.

Promises: P1 and P2 by sequences (compare-and-append), P3 by RESYNC, P6 by `stop`.
"""

from __future__ import annotations

from collections import deque

from heliograph.cluster.empty_transactions import FillProducer
from heliograph.copier.alignment import FILLER, Alignment, Filler
from heliograph.copier.batches import Append, SourceBatch
from heliograph.copier.budget import Parcel, Share
from heliograph.copier.building import Building, filler_time_ms
from heliograph.copier.changes import Changes
from heliograph.copier.clearance import CLEAR, Clearance
from heliograph.copier.fill import Fill, Filling
from heliograph.copier.last_hole import HoleSearches
from heliograph.copier.losses import Losses
from heliograph.copier.merging import Merging
from heliograph.copier.passage import pass_through
from heliograph.copier.phases import FLOWING, OVER, SENDING, Happening, Phase, after
from heliograph.copier.recoding import Awaited, Changed, Recoding
from heliograph.copier.recovery import after_append
from heliograph.copier.resync import Synced
from heliograph.copier.source_queue import SourceQueue
from heliograph.copier.spec import CopySpec
from heliograph.copier.stops import stamped, truncated, wrong_place
from heliograph.copier.suspicions import Suspicions
from heliograph.copier.target_takes import TargetTakes, allowed_times
from heliograph.copier.topic_ids import TopicIds
from heliograph.copier.waits import Outlet, Waits
from heliograph.model.errors import HeliographError, LineLeft, PartitionStop
from heliograph.model.events import Event, Trouble
from heliograph.model.partition_status import Aligning
from heliograph.model.policy import Isolation, Oversize, Timestamps
from heliograph.model.position import Position
from heliograph.model.states import BoundBy, PartitionState, StopReason
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.fetch import FetchedPartition
from heliograph.wire.recode import ANY_TIME

NOWHERE = Position(source=0, target=0, sequence=0)


class PartitionCopy:
    """`held_limit_bytes`: no more is fetched while this much waits here or is in flight.

    `clear_at`: when all that the last holder of the partition has sent is over. `flight_s`: how long an append of ours
    without an answer may still be on its way. `moved`: where it enters itself whenever something is new that reports
    tell of.
    """

    def __init__(
        self,
        spec: CopySpec,
        held_limit_bytes: int,
        *,
        clear_at: float = CLEAR,
        flight_s: float = 0.0,
        moved: dict[PartitionCopy, None] | None = None,
    ) -> None:
        self.spec = spec
        self.source_where = spec.partition.source  # made once: it is asked for with every batch
        self._moved = moved if moved is not None else {}
        self._moved[self] = None
        self.phase = Phase.RESYNC
        self.stopped: PartitionStop | None = None
        self.trouble: Trouble | None = None  # why the last resynchronisation was needed or failed
        self.stale = False  # metadata must be read again before the target is asked
        self.unsure = False  # whether metadata is of the topic that is there now
        self.durable: Position | None = None  # on the target; None until the first resynchronisation
        self.source_end = 0
        self.source_watermark = 0
        self.interruptions = 0  # how often what was known of the target went out of date
        self.records = 0
        self.size_bytes = 0
        self.filled = 0  # offsets of gaps,
        self.filling_s = 0.0  # in so many seconds (copier/fill_clock.py)
        self.topic_ids = TopicIds(spec.partition)
        self._clearance = Clearance(clear_at, flight_s)
        self._notices: list[Trouble] = []
        self._begun: list[Trouble | PartitionStop] = []  # what has begun and is not told yet
        self._share: Share | None = None  # of the target broker that leads the partition
        self._held_limit_bytes = held_limit_bytes
        self._sending = NOWHERE  # where the next append goes
        self._heard = False  # the source has answered a fetch since the last resynchronisation
        self._waiting = SourceQueue(spec)
        self._in_flight: deque[Append] = deque()
        self._in_flight_bytes = 0
        # The record time by which the broker remembers our id; None: it does not.
        self._state_ms: int | None = None
        self._takes_bytes = spec.target_takes.most_bytes  # what the target takes as one batch, for sure,
        self._aim_bytes = self._takes_bytes  # and what is tried
        self._time_limits = (spec.after_max_ms, spec.before_max_ms)
        self._looks_at_times = False  # a time was refused that no header shows
        self._clamped_at: int | None = None  # where one was refused last
        self._wall_ms = 0  # as of the last answer of the source
        self._merging = Merging(spec)
        self._recoding = Recoding(spec)
        self._changes = Changes()
        self._exclusive = False  # whether the link's lease is, as of the last that was heard of it
        self._filling = Filling(spec.fill_way)
        self._alignment: Alignment | None = None  # until the target begins where the source does
        self._stray_to: int | None = None  # up to there the target shows fillers again that were deleted
        self._building: Building | None = None  # while the target topic is being built
        self.searches = HoleSearches()
        self._losses = Losses(spec)
        self._waits = Waits()
        self._suspicions = Suspicions()

    # -- what the caller may do now

    @property
    def next_offset(self) -> int | None:
        """The next source offset to copy, by what is durable on the target."""
        return None if self.durable is None else self.durable.source

    @property
    def over(self) -> bool:
        return self.phase in OVER

    @property
    def merges(self) -> int:
        """Appends that hold more than one batch of the source."""
        return self._merging.merges

    @property
    def wants_resync(self) -> bool:
        return self.phase is Phase.RESYNC

    @property
    def settled(self) -> bool:
        """No answer is due."""
        return not self._in_flight and self._filling.current is None

    @property
    def flowing(self) -> bool:
        """It knows where it stands, and nothing is in its way."""
        return self.phase in FLOWING and self._waiting.obstacle is None

    @property
    def held_back(self) -> bool:
        """It would fetch if there were room."""
        held_bytes = self._waiting.size_bytes + self._in_flight_bytes
        enough = held_bytes >= self._held_limit_bytes or (self._share is not None and self._share.full)
        return self.flowing and enough

    @property
    def source_epoch(self) -> int:
        """The leader epoch of the last batch fetched, or compared with the target's; -1 if it is not known."""
        return self._waiting.last_epoch

    def fetch_offset(self) -> int | None:
        """The offset to fetch from, None while nothing may be fetched."""
        wanted = self.flowing and not self.held_back and not self._waiting.left_old
        if self._alignment is not None and not (self.durable and self._alignment.is_filled(self.durable)):
            return None
        built = self._building is not None and not self._building.fills(self._sending)
        if built and self._alignment is None:
            return None  # what is behind the last hole waits until the topic is built
        if self._losses.under_way(self._sending.source):
            return None  # behind them the source may hold nothing either by the time that they are filled
        return self._waiting.fetch_offset if wanted else None

    def peek(self) -> SourceBatch | Filler | None:
        """What may be taken now; a perishable batch under an exclusive lease only."""
        if self._alignment is not None:
            return self._peek_filler(self._alignment)
        if self._building is not None:
            return self._peek_built(self._building)
        head = self._waiting.head
        if head is None or self.phase not in SENDING:
            return None
        alone = self.phase is Phase.PROBE or head.perishable
        if (alone and self._in_flight) or (head.perishable and not self._clearance.clear):
            return None
        return head if self._waiting.may_go(self._sending.source) else None

    # -- what cannot go as it is (copier/recoding.py)

    @property
    def awaits_recoding(self) -> bool:
        """The next batch is to be made into others, and waits for memory or for the kernels."""
        return self._recoding.awaits is not None

    def recode(self) -> None:
        """Memory may be free by now, or the kernels may be loaded."""
        if self.awaits_recoding and self.phase in FLOWING:
            self._recode()
            self._confirm_alignment()
            self._stop_if_blocked()

    def _recode(self) -> None:
        """What is next, if it cannot go as it is. To be called whenever something else is next."""
        self._moved[self] = None
        if self._building is None:
            self._tell_changes(
                self._recoding.run(self._waiting, self._sending.source, self._share, self._wall_ms)
            )
            self._leave_old()
        elif self._alignment is None:
            limits = {"aim_bytes": self._aim_bytes, "most_bytes": self._takes_bytes}
            self._tell_changes(self._building.prepare(self._waiting, self._sending, self._wall_ms, **limits))

    def _leave_old(self) -> None:
        head = self._waiting.head
        if head is not None and head.perishable and not (self._exclusive and self.clear):
            self._waiting.leave_old(self._sending.source)

    def _tell_changes(self, changes: list[Changed]) -> None:
        for changed in changes:
            if (skipped := self._changes.skipped(changed)) is not None:
                self._losses.untold = True
                self._filling.lost()  # as any loss it waits for a driver that has heard of it
                self.tell(skipped)
            if (clamped := self._changes.clamped(changed, self._wall_ms)) is not None:
                self.tell(clamped)

    def _tell_clamped(self) -> None:
        """What was counted and not told yet, because the last telling was a moment ago."""
        if (rest := self._changes.rest(self._wall_ms)) is not None:
            self.tell(rest)

    def _peek_filler(self, alignment: Alignment) -> Filler | None:
        """Nothing else goes before the last of them is deleted again."""
        if self.phase not in SENDING or alignment.is_filled(self._sending) or self._marker_may_come:
            return None
        return None if self.phase is Phase.PROBE and self._in_flight else FILLER

    def _peek_built(self, building: Building) -> Filler | None:
        if self.phase not in SENDING:
            return None
        if self._lost_unheard or self._marker_may_come:
            return None
        found = building.peek()
        if found is None or ((self.phase is Phase.PROBE or found.perishable) and self._in_flight):
            return None
        return None if found.perishable and not self._clearance.clear else found

    def take(self, room_bytes: int = 0) -> Append:
        """Take what `peek` showed, and what may be merged with it into so many bytes; its answer must come through
        `appended`, `refused` or `lost`."""
        append = self._take_next(room_bytes)
        self._moved[self] = None
        self._in_flight.append(append)
        self._in_flight_bytes += len(append.batch)
        self._sending = append.end
        if append.perishable:
            self._enter(Happening.TOOK_OLD)  # nothing goes behind it, fresh or not, before it is acknowledged
        self._recode()
        return append

    def _take_next(self, room_bytes: int) -> Append:
        if self._alignment is not None:
            return self._alignment.take(self._sending, self.spec, self._aim_bytes)
        if self._building is not None:
            return self._building.take()
        return self._merging.take(self._waiting, self._sending, room_bytes, self._share) or pass_through(
            self._waiting.pop(self._sending.source), self._sending, self.spec
        )

    @property
    def wants_exclusion(self) -> bool:
        """A perishable batch is on its way, or will be; or a gap that only we may fill."""
        in_flight = any(out.perishable for out in self._in_flight)
        fill = self._filling.current or self._gap()
        old_next = self._waiting.old_next or self._waiting.has_old or self._old_is_next
        return old_next or in_flight or bool(fill and fill.exclusive)

    @property
    def clear(self) -> bool:
        """Nobody, not even we, can have an append of this partition on its way; the target was asked since then."""
        return self._clearance.clear

    @property
    def clear_at(self) -> float:
        return self._clearance.over_at

    def is_clear(self, now: float) -> bool:
        return self._clearance.is_over(now)

    @property
    def awaits_clearance(self) -> bool:
        """A perishable batch is next, or a gap behind one, and an append of somebody may still be on its way."""
        return not self._clearance.clear and (
            self._old_is_next
            or self._marker_may_come
            or self._is_contested()
            or self._must_be_clear(self._gap())
        )

    @property
    def _marker_may_come(self) -> bool:
        """A filler is next, in a build, where a marker of the last holder, or one of ours, may be on its way to."""
        if self._building is None or self._clearance.of_markers:
            return False
        return self._building.may_be_marked(self._sending, aligns=self._alignment is not None)

    @property
    def _old_is_next(self) -> bool:
        """A perishable batch: left at the source, or made of what was there."""
        if self._building is not None and self._building.old_next:
            return True
        return self._waiting.left_old and not self._waiting

    def _is_contested(self) -> bool:
        """A gap is next that only we may fill, and not before all is clear."""
        if self._clearance.clear or self.phase not in SENDING or self._in_flight:
            return False
        return self._next_gap() is not None and self._waiting.is_contested(self._sending.source)

    @property
    def awaits_lease(self) -> bool:
        """A perishable batch is next, and all that it lacks is an exclusive lease."""
        return self._old_is_next and self._clearance.clear and not self._exclusive

    # -- fillers (copier/alignment.py)

    @property
    def delete_before(self) -> int | None:
        """Up to where fillers of the target are to be deleted now; None: nothing is."""
        if self.phase not in FLOWING:
            return None
        return self._stray_to if self._alignment is None else self._alignment.delete_before

    def deleted(self, before_offset: int) -> None:
        """The target's leader begins there, or later."""
        self._stray_to = None
        if self._alignment is None:
            return
        self._moved[self] = None
        self._alignment.deleted(before_offset)
        if self._alignment.over:
            self._alignment = None
            if self._building is not None:
                self._begin_building(self._building)

    def _begin_building(self, building: Building) -> None:
        """The target is aligned, or needed no alignment."""
        if building.fills(self._sending):
            self._recode()
        else:
            building.end(self._waiting, self._sending)

    def _build_on(self, building: Building) -> None:
        """Behind what was appended. The target is asked again before the last marker, and behind it, whether brokers
        will clean all fillers (copier/sealing.py)."""
        if building.fills(self._sending):
            self._recode()
        else:
            self._resync_later(None)

    def aligning(self, now: float) -> Aligning | None:
        """How many offsets of how many a new target partition has been given; None: it is aligned."""
        if self.wants_resync and (searching := self.searches.current.progress) is not None:
            return searching
        if self.durable is None:
            return None
        if self._alignment is None:
            return self._building.progress(self.durable, now) if self._building is not None else None
        return self._alignment.progress(self.durable.target, now)

    def searched(self) -> None:
        """The search for the source's last hole is further than it was."""
        self._moved[self] = None

    # -- gaps (copier/fill.py)

    def _gap(self) -> Fill | None:
        """The gap that is next, once no answer is due, if there is an attempt to fill it with, or none is needed."""
        if self.phase not in SENDING or self._in_flight or self._alignment is not None:
            return None
        next_offset = self._next_gap()
        fill = None if next_offset is None else self._filling.plan(self._sending, next_offset)
        return fill if fill is None or self._building is None else fill._replace(alone=True)

    def _next_gap(self) -> int | None:
        """Where the gap ends that is next. Of a topic that is built only the last offset of the last hole is one, and
        a record that is left out."""
        if self._building is not None and self._building.marker(self._sending) is None:
            return None
        return self._waiting.gap(self._sending.source)

    def _must_be_clear(self, fill: Fill | None) -> bool:
        """Whether appends that may still be on their way must be over first: an old batch that nobody compares any
        more would land among the markers. So would, for all that the broker can compare, one of records that are lost
        by now: a former holder may have sent them before, with the sequence number that is still the next one."""
        if fill is None:
            return False
        known_ms = self._state_ms
        lost = self._losses.under_way(fill.start.source) or self._waiting.is_contested(fill.start.source)
        return fill.exclusive or lost or known_ms is None or self.spec.is_perishable(known_ms, self._wall_ms)

    def fill_due(self) -> Fill | None:
        """The gap that is next, if nothing but its lease is needed to fill it."""
        fill = self._gap()
        return fill if self._clearance.clear or not self._must_be_clear(fill) else None

    @property
    def wants_attempt(self) -> bool:
        """A gap is next, and the driver must reserve an attempt to fill it with."""
        if self.phase not in SENDING or self._filling.has_attempt:
            return False
        return self._lost_unheard or self._next_gap() is not None

    @property
    def _lost_unheard(self) -> bool:
        """What is built next is lost. Fillers need no attempt, but its grant shows that the driver has heard of it."""
        lost = self._building is not None and self._losses.under_way(self._sending.source)
        return lost and not self._filling.has_attempt

    @property
    def gaps_filled(self) -> bool:
        """Whether sequences may lag behind offsets: somebody was given an attempt to fill gaps of this partition."""
        return self.spec.gaps_filled or self._filling.may_lag

    @property
    def asks_for_attempt(self) -> bool:
        """The driver is to reserve one: for a gap that waits, or so that it is known that there were gaps."""
        return self.wants_attempt or (self._filling.is_unnoted and not self.over)

    @property
    def fill_producer(self) -> FillProducer | None:
        """By which gaps can be filled with empty transactions; None: the coordinator must be asked first."""
        return self._filling.producer

    def fenced(self, producer: FillProducer) -> None:
        """The transactions' coordinator has fenced others off; the target's end is read after this."""
        self._filling.producer = producer

    @property
    def attempt_above(self) -> int:
        return self._filling.above

    def attempt_granted(self, attempt: int) -> None:
        self._moved[self] = None
        if self._losses.untold:
            return  # it was reserved for another gap: this one waits for a driver that has heard of the loss
        self._filling.granted(attempt)
        if self._waiting:
            self._confirm_alignment()

    def begin_fill(self, fill: Fill) -> None:
        """It goes on by `filled_to` and ends by `fill_over`."""
        self._moved[self] = None
        self._filling.current = fill
        self._filling.ever_filled = True
        self._enter(Happening.MET_GAP)

    def filled_to(self, target_offset: int) -> bool:
        """The target's end was read back, behind markers of ours only. Whether the rest of the gap is to be filled."""
        fill = self._filling.current
        assert fill is not None
        if self.phase is not Phase.FILL:
            return False
        self._moved[self] = None
        self.trouble = None
        self.durable = self._sending = fill.start.past_gap(target_offset - fill.start.target)
        return self._sending != fill.end

    def filled_in(self, offsets: int, seconds: float) -> None:
        """So many of them took so long."""
        self._moved[self] = None
        self.filled += offsets
        self.filling_s += seconds

    def fill_over(
        self,
        problem: Trouble | PartitionStop | None = None,
        *,
        stale: bool = False,
        lost_at: float | None = None,
    ) -> None:
        """No answer is due of the fill any more. `lost_at`: since then something of it may still be executed."""
        fill, self._filling.current = self._filling.current, None
        assert fill is not None
        self._moved[self] = None
        if lost_at is not None:
            self._filling.spent()
            self._clearance.lost(lost_at, marker=True)
        if isinstance(problem, PartitionStop):
            self.stop(problem)
        elif problem is not None and not self.over:
            self._resync_later(problem, stale=stale)
        elif self.phase is Phase.FILL:
            self._waiting.filled(fill.end.source)
            self._enter(Happening.FILLED)
            if self._building is not None:
                self._build_on(self._building)
            else:
                self._recode()
            self._stop_if_blocked()
        else:
            self._drained()

    # -- replies

    def synced(self, found: Synced, now_ms: int | None = None) -> None:
        """`now_ms`: the time of day; it is needed where an alignment begins."""
        assert self.settled
        position = found.position
        wrong = self._suspicions.judge(position) or self._filling.synced(found.marks, position.target)
        if wrong is not None:
            self.stop(wrong)
            return
        if self.durable is not None and position.source < self.durable.source:
            self.tell(truncated(self.durable.source, position.source))
        self._moved[self] = None
        self.durable = self._sending = position
        self._waiting.start(position.source, found.source_epoch)
        self._recoding.awaits = None  # nothing waits any more
        self._state_ms = found.state_ms
        self._stray_to = found.fillers_end
        self._alignment = None
        if found.align_to is not None:
            assert now_ms is not None
            time_ms = filler_time_ms(self.spec, now_ms) if self.spec.builds else now_ms
            self._alignment = Alignment(found.align_to, time_ms)
        self._building = None
        self._lose(found.lost_to)  # a hole like any other to what is built
        if self.spec.builds:
            assert now_ms is not None
            self._building = Building(self.spec, position, found.build_to, now_ms)
            if self._alignment is None:
                self._begin_building(self._building)
        self._heard = False
        self._enter(Happening.SYNCED)

    def _lose(self, lost_to: int | None) -> None:
        """What is lost and accepted becomes a gap. In whatever way it is filled, an attempt must be granted after
        the driver was told: a lane that is killed could else take with it what nobody finds out later."""
        notice = self._losses.found(self._sending.source, lost_to)
        if lost_to is not None:
            self._waiting.lose(lost_to)
        if notice is not None:
            self._filling.lost()
            self.tell(notice)

    def fetched(
        self,
        reply: FetchedPartition,
        asked_offset: int,
        parcel: Parcel,
        now_ms: int,
        *,
        exclusive: bool = True,
    ) -> None:
        """Batches from the source; ignored if they are not what is wanted any more. `exclusive`: whether the link's
        lease is, so that perishable batches may be sent."""
        if not self.flowing or asked_offset != self._waiting.fetch_offset:
            return
        if reply.diverging_epoch is not None:
            self._diverge(*reply.diverging_epoch)
            return
        self._moved[self] = None
        self._heard = True
        idle = not self._in_flight and not self._waiting
        if idle and not reply.records:
            self.trouble = None  # caught up: nothing is left that could be in trouble
            self._tell_clamped()
        self.source_watermark = reply.high_watermark
        committed = self.spec.policy.isolation is Isolation.READ_COMMITTED and reply.last_stable_offset >= 0
        self.source_end = reply.last_stable_offset if committed else reply.high_watermark
        self._wall_ms = now_ms
        if idle:
            self._doubt_state(now_ms)
        self._exclusive = exclusive
        self._set_takes()
        # Among fillers, which are of today, old records are not perishable.
        old_may_go = (exclusive and self.clear) or self._building is not None
        self._waiting.take_in(reply, parcel, self._share, now_ms, old_may_go=old_may_go)
        self._recode()
        self._confirm_alignment()
        self._stop_if_blocked()

    def _confirm_alignment(self) -> None:
        """The source holds the goal, and what comes first may follow at once. Until then the last filler stays: without
        it nobody could tell an alignment under way from records that were lost to retention."""
        waits = self._old_is_next or self.wants_attempt or self.awaits_recoding
        if self._alignment is not None and not waits and not self._is_contested():
            self._alignment.confirmed()

    def leased(self, *, exclusive: bool) -> None:
        """The link's exclusive lease has come, or is over."""
        self._moved[self] = None
        self._exclusive = exclusive
        if not exclusive:
            if self._building is None:
                self._waiting.leave_old(self._sending.source)
        elif self._clearance.clear:
            self._waiting.left_old = False

    def _doubt_state(self, now_ms: int) -> None:
        """The broker may have forgotten us while nothing was written: the next append goes alone again."""
        if self._state_ms is None or self.spec.is_perishable(self._state_ms, now_ms):
            self._enter(Happening.DOUBTED)

    def _diverge(self, epoch: int, end_offset: int) -> None:
        self._suspicions.source_ends(end_offset)
        problem = f"the source was truncated: its leader epoch {epoch} ends at {end_offset}"
        self._resync_later(Trouble(Event.SOURCE_DIVERGED, problem, end_offset))

    def interrupted(self, trouble: Trouble, *, stale: bool = False) -> None:
        """A broker did not answer as it should: where the copy stands is checked again."""
        self._resync_later(trouble, stale=stale)

    def cleared(self, now: float) -> None:
        """Time has passed. If whatever was on its way is over by now, what is there stays: the target is asked again,
        because what it said before may be out of date, whether or not a batch waits already."""
        if self._clearance.passed(now):
            old_next = self._waiting.old_next or self._old_is_next
            self._resync_later(Trouble(Event.LEASE_WAIT, "older appends are over by now"))
            self._waiting.old_next = old_next and not self.over

    def appended(self, base_offset: int, append_time: int = -1) -> None:
        """The broker answered the oldest append with success, at this offset. `append_time`: what it has written into
        the batch, -1 where it left it as it was. A duplicate is answered with the time of the batch that is there."""
        append = self._settle()
        expected = append.start.target
        if base_offset < expected:
            self._note_race(append)
        if base_offset > expected:
            self.stop(wrong_place(expected, base_offset))
        elif append_time != -1 and (self._building is not None or not append.records):
            # A duplicate: of a rival's fillers, which are dated by its own clock, or of its first records, which have
            # the same sequence numbers. If the broker stamps batches, the resynchronisation finds that out.
            self._resync_later(Trouble(Event.RACED, f"another copier had appended offset {expected} before"))
        elif base_offset == expected and append_time not in (-1, append.max_timestamp):
            self.stop(stamped(base_offset))
        elif self.phase is Phase.RETIRED and base_offset == expected:
            self._count(append)
        elif self.phase not in SENDING:
            self._drained()
        elif base_offset == expected:
            self._advance(append)
        else:
            words = f"another copier had appended offset {expected} before"
            self._resync_later(Trouble(Event.RACED, words, append.start.source, append.end.source))

    def refused(self, code: int, message: str) -> None:
        """The broker answered the oldest append with an error."""
        append = self._settle()
        at, offsets = append.start.target, (append.start.source, append.end.source)
        demand = after_append(code, message, at)
        if not isinstance(demand, PartitionStop) and demand.event is Event.RACED:
            self._note_race(append)
        if self.phase not in SENDING:
            self._drained()
        elif isinstance(demand, PartitionStop) and not append.records and self._fewer_fillers(demand, append):
            self._resync_later(Trouble(Event.APPEND_REFUSED, f"fillers at {at}: {ErrorCode.name_of(code)}"))
        elif isinstance(demand, PartitionStop) and append.batches > 1:
            self._merging.refused(append, too_large=demand.reason is StopReason.TOO_LARGE)
            words = (
                f"append of {append.batches} batches at {at}: {ErrorCode.name_of(code)}; they go one by one"
            )
            self._resync_later(Trouble(Event.APPEND_REFUSED, words, *offsets))
        elif isinstance(demand, PartitionStop) and self._can_be_recoded(demand, append):
            words = f"append at {at}: {ErrorCode.name_of(code)}; its records go in another form"
            self._resync_later(Trouble(Event.APPEND_REFUSED, words, *offsets))
        elif isinstance(demand, PartitionStop):
            self.stop(demand)
        else:
            words = f"append at {at}: {ErrorCode.name_of(code)}"
            self._resync_later(Trouble(demand.event, words, *offsets), stale=demand.refresh)

    def _can_be_recoded(self, refused: PartitionStop, append: Append) -> bool:
        """Whether the target may take its records as smaller batches, or with other times."""
        size_bytes, policy = len(append.batch), self.spec.policy
        if refused.reason is StopReason.TOO_LARGE:
            self._takes_bytes = min(self._takes_bytes, size_bytes - 1)
            self._aim_bytes = min(self._takes_bytes, size_bytes // 2)
            several = append.end.target - append.start.target > 1  # records, or fillers around one
            return several or policy.oversize is Oversize.SKIP
        if refused.reason is StopReason.TIMESTAMP and policy.timestamps is Timestamps.CLAMP:
            again, self._clamped_at = self._clamped_at == append.start.source, append.start.source
            self._looks_at_times = True
            return not again  # then it had times that we thought the target takes
        return False

    def _fewer_fillers(self, refused: PartitionStop, append: Append) -> bool:
        """The topic takes smaller batches by now, and is not read again yet. Whether there is something to make
        less."""
        self._aim_bytes = len(append.batch) // 2
        return refused.reason is StopReason.TOO_LARGE and append.end.target - append.start.target > 1

    def _note_race(self, append: Append) -> None:
        """Old records go under an exclusive lease, and when all others' appends are over: nobody could be first, in
        whatever phase this copy is by now. The target tells whether somebody was, or whether it was truncated."""
        if append.perishable and self.clear:
            self._suspicions.raced(append.start.target)

    def lost(self, problem: HeliographError, now: float) -> None:
        """No answer to the oldest append will come: its outcome is unknown, and it may still execute. A fresh one
        too must be over before a perishable batch makes the broker forget what it would compare it with."""
        self._settle()
        self._clearance.lost(now)
        if isinstance(problem, LineLeft):
            self._resync_later(self.trouble)  # our own doing, and mended at once: nothing to tell
        else:
            self._resync_later(Trouble(Event.BROKER_AWAY, problem.message), stale=True)

    def stop(self, stop: PartitionStop) -> None:
        self._moved[self] = None
        if self.stopped is None:
            self.stopped = stop
            self._begun.append(stop)
        self._tell_clamped()
        self.interruptions += 1
        self._enter(Happening.STOP)
        self._drop_waiting()
        self._leave_share()

    def retire(self) -> None:
        """Send and fetch no more."""
        self._moved[self] = None
        self._tell_clamped()
        self.interruptions += 1
        self._enter(Happening.RETIRE)
        self._drop_waiting()
        self._leave_share()

    # -- what others learn on its behalf

    def source_away(self, trouble: Trouble) -> None:
        """A fetch failed: nothing is known of the source's end any more, and it is read again from the same offset."""
        self._moved[self] = None
        self._meet(trouble)
        self._heard = False

    def troubled(self, trouble: Trouble) -> None:
        """It recovers, or waits, by itself; this is why."""
        self._moved[self] = None
        self._meet(trouble)

    def tell(self, notice: Trouble) -> None:
        """Something that an operator must hear of though it is over."""
        self._moved[self] = None
        self._notices.append(notice)

    @property
    def notices(self) -> tuple[Trouble, ...]:
        return tuple(self._notices)

    def take_notices(self) -> list[Trouble]:
        self._losses.untold = False
        notices, self._notices = self._notices, []
        return notices

    def take_begun(self) -> list[Trouble | PartitionStop]:
        """Every trouble since this was last asked, also one that is over by now; and the stop."""
        begun, self._begun = self._begun, []
        return begun

    def limited(self, limit_bytes: int, time_limits: tuple[int, int] | None = None) -> None:
        """What the target topic takes as one batch now, and how far a record's time may be ahead and behind."""
        self._takes_bytes = self._aim_bytes = limit_bytes or self._takes_bytes
        self._time_limits = time_limits or self._time_limits
        self._set_takes()
        self._merging.limit(limit_bytes)

    def _set_takes(self) -> None:
        """What is known of the target, for what comes from now on."""
        clamps = self.spec.policy.timestamps is Timestamps.CLAMP
        self._waiting.takes = TargetTakes(
            batch_bytes=self._aim_bytes,
            most_bytes=self._takes_bytes,
            times=allowed_times(*self._time_limits, self._wall_ms) if clamps else ANY_TIME,
            looks=self._looks_at_times,
        )

    def refreshed(self) -> None:
        """Metadata is being read again."""
        self.stale = False

    def doubt_metadata(self) -> None:
        """What is known of the target's topic may be of one that was there before: it is read again first."""
        self.stale = self.unsure = True

    def sure_of_metadata(self) -> None:
        self.unsure = False

    def seen_topic(self, side: str, identity: str) -> None:
        """Which topic metadata shows under the name now."""
        if self.unsure:
            return
        recreated = self.topic_ids.seen(side, identity)
        if recreated is not None and not self.over:
            self.stop(recreated)

    def led_by(self, share: Share) -> None:
        """The target partition has this leader; what is queued from now on counts against its share."""
        self._leave_share()
        self._share = share
        share.join()

    def _leave_share(self) -> None:
        if self._share is not None:
            self._share.leave()
            self._share = None

    # -- what makes no noise (copier/vigil.py)

    def is_idle_at(self, position: Position | None) -> bool:
        """Whether it stands there, expects no answer and has nothing in its way."""
        return self.flowing and self.settled and self.durable == position

    def compare_end(self, end: int, asked_at: Position | None) -> bool:
        """The target's log end, asked for when the copy was idle there. Whether it has moved without us."""
        if asked_at is None or not self.is_idle_at(asked_at) or end == asked_at.target:
            return False
        problem = f"the target ends at {end}, not at {asked_at.target} any more"
        first_offset, next_offset = sorted((end, asked_at.target))
        self._resync_later(Trouble(Event.UNSETTLED, problem, first_offset, next_offset))
        return True

    @property
    def held_by_transaction(self) -> bool:
        """All that may be read is copied, and the source holds more."""
        return self.flowing and self.next_offset == self.source_end < self.source_watermark

    # -- inside

    def _enter(self, happening: Happening) -> None:
        self.phase = after(self.phase, happening)

    def _advance(self, append: Append) -> None:
        self.trouble = None
        self._count(append)
        if self._alignment is not None:
            self._alignment.acknowledged(append)
            if self._alignment.is_filled(append.end):
                self._waiting.start(append.end.source, leader_epoch=-1)
        self._state_ms = append.max_timestamp
        self._enter(Happening.ACKED_OLD if append.perishable else Happening.ACKED)
        if self._building is not None and self._alignment is None and self.settled:
            self._build_on(self._building)
        self._stop_if_blocked()

    def _count(self, append: Append) -> None:
        self.durable = append.end
        self.records += append.records
        self.size_bytes += len(append.batch)

    def _stop_if_blocked(self) -> None:
        """Once all before it is there: then the copy is as long as it can be."""
        if self._in_flight or self.phase not in SENDING:
            return
        if self._building is not None:
            why = self._building.problem or (None if self._waiting else self._waiting.obstacle)
        else:
            why = self._waiting.blocked_by(self._sending.source)
        if why is not None:
            self.stop(why)

    def _resync_later(self, trouble: Trouble | None, *, stale: bool = False) -> None:
        if self.over:
            return
        self._moved[self] = None
        self.interruptions += 1
        self._meet(trouble)
        self.stale = self.stale or stale
        self._drop_waiting()
        self._enter(Happening.TROUBLE)
        self._drained()

    def _drop_waiting(self) -> None:
        self._waiting.drop()
        if self._building is not None:
            self._building.drop()

    def _meet(self, trouble: Trouble | None) -> None:
        """A trouble that goes on as it was does not begin again."""
        if trouble is not None and trouble != self.trouble:
            self._begun.append(trouble)
        self.trouble = trouble

    def _drained(self) -> None:
        if self.phase is Phase.DRAIN and self.settled:
            self._enter(Happening.SETTLED)

    def _settle(self) -> Append:
        self._moved[self] = None
        append = self._in_flight.popleft()
        self._in_flight_bytes -= len(append.batch)
        append.release()
        return append

    # -- for reports

    def offered_to(self, outlet: Outlet) -> None:
        """What waits here waits for this one to take it."""
        self._waits.outlet = outlet

    def throttled(self, until: float) -> None:
        """A quota: the broker that it reads from, or appends to, listens to nobody before that."""
        if self._waits.throttled(until):
            self._moved[self] = None

    @property
    def behind(self) -> bool:
        """Not all that is known to be at the source is on the target."""
        return self.durable is None or self.durable.source < self.source_end or bool(self._waiting)

    def bound_by(self, now: float) -> BoundBy | None:
        """What the copy waits for; None while it does not flow, or must not send yet."""
        if not self.flowing or self.awaits_clearance or self.awaits_lease or self.wants_attempt:
            return None
        if self._gap() is not None:
            return None  # all that it lacks is a lease
        if self._building is not None and not self._building.fills(self._sending):
            return None  # the driver's turn
        if self.awaits_recoding:
            # What holds the memory is on its way to the target.
            return BoundBy.TARGET if self._recoding.awaits is Awaited.MEMORY else None
        deletes = self._alignment is not None and self._alignment.is_filled(self._sending)
        answers_due = deletes or not self.settled or (self._share is not None and self._share.full)
        made = self._building is not None and self._building.ready is not None
        return self._waits.bound_by(now, answers_due=answers_due, holds=made or bool(self._waiting))

    @property
    def state(self) -> PartitionState:
        if self.phase is Phase.STOPPED:
            return PartitionState.STOPPED
        if self.phase is Phase.RESYNC or self.durable is None or self._alignment is not None:
            return PartitionState.ALIGNING
        if self._building is not None:
            return PartitionState.ALIGNING
        caught_up = self._heard and self.durable.source >= self.source_end
        return PartitionState.CAUGHT_UP if caught_up else PartitionState.COPYING
