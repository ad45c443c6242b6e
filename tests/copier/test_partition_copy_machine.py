"""PartitionCopy under any order of replies (P1, P2, P3, P6): a machine that plays fetcher, sender and brokers."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from heliograph.copier.batches import Append, SourceBatch
from heliograph.copier.budget import ByteBudget, Parcel
from heliograph.copier.clearance import CLEAR
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.phases import Phase
from heliograph.copier.recovery import APPEND_ANSWERS, Resynchronise, Stop
from heliograph.model.errors import PartitionStop
from heliograph.model.events import Event
from heliograph.model.states import StopReason
from heliograph.wire.error_codes import ErrorCode

from .source_batches import (
    AWAY,
    BROKEN,
    DAY_MS,
    LOG_APPEND_TIME,
    MIRRORED_BACK,
    NOW_MS,
    NOW_S,
    batch,
    fetched,
    old_batch,
    spec_of,
    synced_at,
)

OPERATOR = PartitionStop(StopReason.ANCHOR, "told to", hint="none")
codes = st.sampled_from([*ErrorCode]).filter(lambda code: code is not ErrorCode.NONE) | st.just(4711)


class AnyOrderOfReplies(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.copy = PartitionCopy(spec_of(), held_limit_bytes=400)
        self.budget = ByteBudget(1 << 30)
        self.now_ms = NOW_MS
        self.in_flight: list[Append] = []
        self.position: int | None = None  # what the acknowledgements add up to
        self.take_next = 0  # where the next batch taken must begin
        self.may_take = False  # False from a failed append or an interruption until synced
        self.obstacle_at: int | None = None
        self.clear = True  # whether nothing can be on its way any more
        self.asked_clear = True  # whether the target was asked since then
        self.diverged_at: int | None = None
        self.exclusive = True  # the link's lease
        self.raced_at: int | None = None  # where somebody was first with old records, as an answer says

    @initialize(clear=st.booleans())
    def begin(self, clear: bool) -> None:
        self.copy = PartitionCopy(spec_of(), held_limit_bytes=400, clear_at=CLEAR if clear else NOW_S)
        self.clear = self.asked_clear = clear
        assert self.copy.wants_resync

    # -- the source

    @precondition(lambda self: self.copy.fetch_offset() is not None)
    @rule(
        sizes=st.lists(st.tuples(st.integers(1, 3), st.booleans(), st.booleans()), max_size=4),
        around=st.integers(0, 2),
        obstacle=st.booleans(),
        cut=st.booleans(),
        idle_days=st.sampled_from([0, 0, 0, 2]),
    )
    def records_arrive(
        self, sizes: list[tuple[int, bool, bool]], around: int, obstacle: bool, cut: bool, idle_days: int
    ) -> None:
        """Some must be recoded: the first one may begin before what was asked for, and some have log append time."""
        asked = self.copy.fetch_offset()
        assert asked is not None
        self.now_ms += idle_days * DAY_MS
        at, batches = max(asked - around, 0), []
        for nth, (count, old, stamped) in enumerate(sizes):
            count += asked - at if nth == 0 else 0
            how = {"attributes": LOG_APPEND_TIME if stamped else 0}
            batches.append(
                old_batch(at, count, **how) if old else batch(at, count, timestamp=self.now_ms, **how)
            )
            at += count
        at = max(at, asked)
        if obstacle:
            self.obstacle_at = at if self.obstacle_at is None else self.obstacle_at
            batches.append(batch(at, producer_id=MIRRORED_BACK))
        elif cut:
            batches.append(batch(at)[:70])
        self.deliver(batches, asked)

    @rule(asked=st.integers(0, 50))
    def records_nobody_wants_arrive(self, asked: int) -> None:
        # What was asked for before the copy had enough is taken all the same: fetching it again would cost more.
        if asked != self.copy._waiting.fetch_offset or self.copy.phase not in (Phase.PROBE, Phase.STREAM):
            before = self.budget.used_bytes
            self.deliver([batch(asked)], asked)
            assert self.budget.used_bytes == before

    @precondition(lambda self: self.copy.fetch_offset() is not None)
    @rule(end=st.integers(0, 40))
    def source_was_truncated(self, end: int) -> None:
        asked = self.copy.fetch_offset()
        assert asked is not None
        self.deliver([], asked, diverging=(3, end))
        self.diverged_at = end
        self.may_take = False
        assert self.copy.phase in (Phase.DRAIN, Phase.RESYNC)

    def deliver(self, batches: list[bytearray], asked: int, diverging: tuple[int, int] | None = None) -> None:
        reply = fetched(*batches, diverging=diverging)
        self.budget.adjust(0, len(reply.records))
        parcel = Parcel(self.budget, len(reply.records))
        self.copy.fetched(reply, asked, parcel, self.now_ms, exclusive=self.exclusive)
        parcel.release()

    # -- the sender

    @precondition(lambda self: self.copy.peek() is not None)
    @rule()
    def append_is_sent(self) -> None:
        assert self.may_take
        outgoing = self.copy.take()
        assert outgoing.start.source == self.take_next
        if outgoing.perishable:
            assert self.clear
            assert self.asked_clear
            assert not self.in_flight
        self.take_next = outgoing.end.source
        self.in_flight.append(outgoing)

    # -- the target

    @precondition(lambda self: self.in_flight)
    @rule()
    def appended_where_expected(self) -> None:
        outgoing = self.in_flight.pop(0)
        counts = self.copy.phase in (Phase.PROBE, Phase.STREAM, Phase.RETIRED)
        self.copy.appended(outgoing.start.source)
        assert not (outgoing.perishable and self.copy.phase is Phase.STREAM)
        if counts:
            self.position = outgoing.end.source

    @precondition(lambda self: self.in_flight)
    @rule(distance=st.integers(1, 5))
    def appended_below(self, distance: int) -> None:
        outgoing = self.in_flight.pop(0)
        active = self.copy.phase in (Phase.PROBE, Phase.STREAM)
        self.note_race(outgoing)
        self.copy.appended(outgoing.start.source - distance)
        self.may_take = False
        assert not active or self.copy.phase in (Phase.DRAIN, Phase.RESYNC)

    def note_race(self, outgoing: Append) -> None:
        """Nobody else may append old records, once all of others' is over."""
        if outgoing.perishable and self.clear:
            self.raced_at = outgoing.start.target

    @precondition(lambda self: self.in_flight)
    @rule(distance=st.integers(1, 5))
    def appended_above(self, distance: int) -> None:
        outgoing = self.in_flight.pop(0)
        self.copy.appended(outgoing.start.source + distance)
        self.may_take = False
        assert self.copy.phase is Phase.STOPPED

    @precondition(lambda self: self.in_flight)
    @rule(code=codes)
    def append_refused(self, code: int) -> None:
        outgoing = self.in_flight.pop(0)
        answer = APPEND_ANSWERS.get(code)
        if isinstance(answer, Resynchronise) and answer.event is Event.RACED:
            self.note_race(outgoing)
        active = self.copy.phase in (Phase.PROBE, Phase.STREAM)
        self.copy.refused(code, "")
        self.may_take = False
        stops = isinstance(APPEND_ANSWERS.get(code), Stop)
        assert not active or (self.copy.phase is Phase.STOPPED) == stops

    @precondition(lambda self: self.in_flight)
    @rule()
    def append_lost(self) -> None:
        self.in_flight.pop(0)
        self.copy.lost(BROKEN, NOW_S)
        self.may_take = self.clear = self.asked_clear = False

    # -- the lane

    @rule()
    def older_appends_are_over(self) -> None:
        was_clear = self.copy.clear
        self.copy.cleared(NOW_S + 30)
        if not was_clear:
            self.clear = True
            self.may_take = False

    @rule(exclusive=st.booleans())
    def lease_comes_or_is_over(self, exclusive: bool) -> None:
        self.exclusive = exclusive
        self.copy.leased(exclusive=exclusive)
        if self.obstacle_at is not None and self.copy._waiting.fetch_offset <= self.obstacle_at:
            self.obstacle_at = None  # it was left at the source, and is met again

    @invariant()
    def what_may_not_be_sent_yet_holds_no_memory(self) -> None:
        may_send = self.exclusive and self.clear
        waiting = [w for w in self.copy._waiting if isinstance(w, SourceBatch)]
        # What stops it may wait.
        old = [w for w in waiting if w.perishable and w.header.producer_id != MIRRORED_BACK]
        assert may_send or not old

    @rule()
    def broker_is_gone(self) -> None:
        self.copy.interrupted(AWAY)
        self.may_take = False

    @precondition(lambda self: self.copy.wants_resync)
    @rule(next_offset=st.integers(0, 40), remembered=st.booleans())
    def target_was_asked(self, next_offset: int, remembered: bool) -> None:
        notices = len(self.copy.notices)
        self.copy.synced(synced_at(next_offset, state_ms=self.now_ms if remembered else None))
        if self.diverged_at is not None and next_offset > self.diverged_at:
            assert self.copy.stopped is not None
            assert self.copy.stopped.reason == StopReason.DIVERGED
            return
        raced_at, self.raced_at = self.raced_at, None
        if raced_at is not None and next_offset > raced_at:
            assert self.copy.stopped is not None
            assert self.copy.stopped.reason == StopReason.RIVAL
            return
        assert self.copy.phase is Phase.PROBE
        fell_back = self.position is not None and next_offset < self.position
        assert len(self.copy.notices) == notices + fell_back
        self.position = self.take_next = next_offset
        self.may_take, self.asked_clear = True, self.clear
        self.obstacle_at = self.diverged_at = None

    @precondition(lambda self: self.position is not None and self.position > 20)
    @rule(retire=st.booleans())
    def it_ends(self, retire: bool) -> None:
        if retire:
            self.copy.retire()
        else:
            self.copy.stop(OPERATOR)
        self.may_take = False

    # -- the promises

    @invariant()
    def a_probe_goes_alone(self) -> None:
        if self.copy.phase is Phase.PROBE:
            assert len(self.in_flight) <= 1
            assert not self.in_flight or self.copy.peek() is None

    @invariant()
    def a_perishable_append_goes_alone(self) -> None:
        if any(outgoing.perishable for outgoing in self.in_flight):
            assert len(self.in_flight) == 1
            assert self.copy.peek() is None

    @invariant()
    def a_perishable_append_goes_only_when_nothing_else_is_on_its_way(self) -> None:
        assert self.copy.clear == self.clear
        head = self.copy.peek()
        assert head is None or not head.perishable or (self.clear and self.asked_clear)

    @invariant()
    def nothing_is_taken_after_a_failure_until_synced(self) -> None:
        assert self.may_take or self.copy.peek() is None
        assert self.may_take or self.copy.fetch_offset() is None

    @invariant()
    def the_position_moves_by_acknowledgements_alone(self) -> None:
        assert self.copy.next_offset == self.position

    @invariant()
    def the_target_is_asked_only_when_no_answer_is_due(self) -> None:
        assert self.copy.settled == (not self.in_flight)
        assert not (self.copy.wants_resync and self.in_flight)

    @invariant()
    def bytes_are_given_back(self) -> None:
        idle = self.copy.phase not in (Phase.PROBE, Phase.STREAM)
        if idle and not self.in_flight:
            assert self.budget.used_bytes == self.budget.merged_bytes == 0

    @invariant()
    def an_obstacle_stops_when_all_before_it_is_there(self) -> None:
        stop = self.copy.stopped
        if stop is not None and stop.reason == StopReason.LOOP:
            assert not self.in_flight
            assert self.copy.next_offset == self.obstacle_at

    def teardown(self) -> None:
        self.copy.retire()
        while self.in_flight:
            self.append_lost()
        assert self.copy.settled
        assert self.budget.used_bytes == self.budget.merged_bytes == 0


AnyOrderOfReplies.TestCase.settings = settings(
    deadline=None,
    max_examples=150,
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestAnyOrderOfReplies = AnyOrderOfReplies.TestCase
