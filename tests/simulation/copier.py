"""One copier of the partition, as a lane runs it: the real PartitionCopy, resynchronisation and lease, without sockets.

Plays fetcher, sender and vigil with production's rules (copier/lane.py, sender.py, fetcher.py, resynchroniser.py,
vigil.py); where those change, this must follow. Whatever it decides by itself is routing and pacing only: what may be
sent, and what an answer means, is the production code's.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from heliograph.copier.budget import ByteBudget, Parcel
from heliograph.copier.clearance import CLEAR
from heliograph.copier.lease import Lease
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.phases import Phase
from heliograph.copier.recovery import stop_for_read
from heliograph.copier.spec import CopySpec
from heliograph.model.errors import BrokerRefused, Disconnected, PartitionStop
from heliograph.model.events import Event, Trouble
from heliograph.model.partition import MirrorPartition
from heliograph.model.producer_id import producer_id
from heliograph.model.states import StopReason
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.fetch import FetchedPartition

from .control_wire import SPEED
from .model_broker import NO_EPOCH, Answer, Fetched, Led, ModelPartition
from .questions import Asking
from .target_line import FLIGHT_MS, Line

if TYPE_CHECKING:
    from .lane import SimLane
    from .world import World

PARTITION = MirrorPartition("sf-to-nyc", "orders", "orders", 0)
SPEC = CopySpec(
    partition=PARTITION,
    source="sf",
    target="nyc",
    target_cluster_id="nyc-id",
    producer_id=producer_id("sf-id", "orders"),
    max_batch_bytes=1 << 20,
)
IN_FLIGHT = 5
LOOK_MS = 300  # scaled like leases
FETCH_BYTES = 350
HELD_BYTES = 1_400
FLIGHT_S = FLIGHT_MS * SPEED / 1000  # as leases count it


class SimCopier:
    def __init__(self, world: World, lane: SimLane, lease: Lease, *, clear_in_ms: int) -> None:
        self.world = world
        self.lane = lane
        self.lease = lease
        clear_at = world.now_ms + clear_in_ms if clear_in_ms > 0 else CLEAR
        self.copy = PartitionCopy(
            SPEC,
            HELD_BYTES,
            clear_at=clear_at,
            flight_s=FLIGHT_MS,
        )
        self.leader: Led | None = None
        self.source_leader: Led | None = None
        self.topic_ids: dict[str, str] = {}
        self.line: Line | None = None
        self.asking = Asking(self)
        self._budget = ByteBudget(1 << 30)
        self._fetching = False
        self._at_end = False  # the source had nothing more: a fetch waits there for what comes
        self._clearing = False
        self._idle_offset = -1
        self._leaving = False

    def begin(self) -> None:
        self.lane.after(LOOK_MS, self._look)
        self.read_metadata()
        self.attend()

    @property
    def over(self) -> bool:
        return self.copy.phase in (Phase.STOPPED, Phase.RETIRED) or self.lane.copier is not self

    def attend(self) -> None:
        """Something happened: see to what may be done now."""
        copy = self.copy
        if self.over:
            if copy.stopped is not None and copy.stopped not in self.world.stops:
                self.world.stops.append(copy.stopped)
                self.world.tell(self.lane.name, "STOPS:", copy.stopped.reason, copy.stopped.message)
            if self._leaving and copy.settled and self.lane.copier is self:
                self.lane.copier_has_left(clean=self.is_clear)
            return
        if copy.wants_resync:
            self.asking.begin()
            return
        if copy.awaits_clearance and not self._clearing:
            self._clearing = True
            self.lane.after(max(int(copy.clear_at) - self.world.now_ms, 0), self._clear)
        self._send()
        if not self._fetching and not self._at_end and copy.fetch_offset() is not None:
            self._fetch()

    @property
    def is_clear(self) -> bool:
        """Nothing of this partition can be on its way."""
        return self.copy.is_clear(self.world.now_ms)

    def _clear(self) -> None:
        self._clearing = False
        if not self.over:
            self.copy.cleared(self.world.now_ms)
            self.attend()

    def leave(self) -> None:
        """Send no more, and go when every answer that is due is there."""
        self._leaving = True
        self.copy.retire()
        self.attend()

    # -- appends

    def _send(self) -> None:
        while (outgoing := self.copy.peek()) is not None and self.leader is not None:
            line = self._line_for(self.leader, careful=outgoing.perishable)
            if line is None or len(line.due) >= IN_FLIGHT:
                return
            if not (self.lease.exclusive if outgoing.perishable else self.lease.alive):
                return
            append = self.copy.take()
            plan = self.world.plan
            by_id = plan.produces_by_id and not plan.planted_names_only
            topic_id = self.topic_ids.get("target", "") if by_id else ""
            self.world.tell(self.lane.name, "sends", outgoing.header.base_offset, "to", line.node)
            line.send(bytes(append.batch), topic_id, partial(self._settle, outgoing.header.base_offset))

    def _line_for(self, led: Led, *, careful: bool) -> Line | None:
        """The line it is on; another one only when no answer is due, or batches could overtake each other."""
        line, node = self.line, led.leader
        if line is not None and not line.closed and (line.node, line.careful) == (node, careful):
            line.led = led if self.copy.settled else line.led
            return line
        if line is not None and not line.closed and not self.copy.settled:
            return None
        partition = self.world.target.partition
        if partition is not None and node in partition.down:
            self.copy.interrupted(Trouble(Event.BROKER_AWAY, f"broker {node} is away"), stale=True)
            self.lane.after(1, self.attend)
            return None
        self.line = Line(self.world, self.lane, led, careful=careful)
        return self.line

    def _settle(self, offset: int, answer: Answer | None) -> None:
        self.world.tell(self.lane.name, "hears of", offset, answer)
        if answer is None:
            self.copy.lost(Disconnected("no answer"), self.world.now_ms)
        elif answer.error:
            self.copy.refused(answer.error, "")
        else:
            self.copy.appended(answer.offset)
        self.attend()

    def lapse(self) -> None:
        if self.line is not None and not (self.lease.exclusive if self.line.careful else self.lease.alive):
            self.line.close()

    # -- fetches

    def _fetch(self) -> None:
        offset = self.copy.fetch_offset()
        assert offset is not None
        self._fetching = True
        last_epoch = NO_EPOCH if self.world.plan.planted_no_epochs else self.copy.source_epoch
        self.lane.after(self.world.delay_ms(), self._fetch_at_broker, offset, last_epoch)

    def _fetch_at_broker(self, offset: int, last_epoch: int) -> None:
        partition, leader = self.world.source.partition, self.source_leader
        lost = self.world.loses_message() or (partition is not None and partition.down)
        if lost or partition is None or leader is None:
            code = ErrorCode.NETWORK_EXCEPTION if lost else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            fetched = Fetched(code)
        else:
            fetched = partition.fetch(
                leader.leader,
                offset,
                leader_epoch=NO_EPOCH if self.world.plan.planted_no_epochs else leader.epoch,
                last_fetched_epoch=last_epoch,
                max_bytes=FETCH_BYTES,
            )
        self.lane.after(self.world.delay_ms(), self._fetched, fetched, offset)

    def _fetched(self, fetched: Fetched, offset: int) -> None:
        self._fetching = False
        if self.over:
            return
        if fetched.error:
            self._fetch_refused(fetched.error)
        else:
            self._take_in(fetched, offset)
        self.attend()

    def _fetch_refused(self, code: int) -> None:
        stop = stop_for_read(BrokerRefused("fetch", code=code))
        if stop is not None:
            self.copy.stop(stop)
        else:
            self.copy.interrupted(Trouble(Event.FETCH_REFUSED, ErrorCode.name_of(code)))

    def _take_in(self, fetched: Fetched, offset: int) -> None:
        data = memoryview(bytearray().join(stored.data for stored in fetched.batches))
        self._budget.adjust(0, len(data))
        parcel = Parcel(self._budget, len(data))
        watermark, start = fetched.high_watermark, fetched.start
        reply = FetchedPartition(
            *PARTITION.source, 0, watermark, watermark, start, -1, data, fetched.diverging, None
        )
        self._at_end = not data and fetched.diverging is None
        self.copy.fetched(reply, offset, parcel, self.lane.wall_ms)
        parcel.release()

    def source_changed(self) -> None:
        self._at_end = False
        self.attend()

    # -- metadata

    def read_metadata(self) -> None:
        """What the clusters say now; news of a leader or of another topic interrupts or stops the copy."""
        world = self.world
        self._note("source", world.source.partition)
        self._note("target", world.target.partition)
        if self.over:
            return
        source, target = (
            world.led(world.source.partition, None),
            world.led(world.target.partition, self.leader),
        )
        for before, now in ((self.source_leader, source), (self.leader, target)):
            if before is not None and before != now:
                self.copy.interrupted(Trouble(Event.LEADER_MOVED, "a new leader"))
        self.source_leader, self.leader = source, target

    def _note(self, side: str, partition: ModelPartition | None) -> None:
        if partition is None or self.over:
            return
        if self.topic_ids.setdefault(side, partition.topic_id) == partition.topic_id:
            return
        if self.world.plan.planted_names_only:
            return
        self.copy.stop(PartitionStop(StopReason.RECREATED, f"the {side} topic is another one", hint=""))

    # -- what makes no noise

    def _look(self) -> None:
        if self.over or self.world.plan.planted_no_look:
            return
        self.lane.after(LOOK_MS, self._look)
        self.read_metadata()
        copy = self.copy
        still = copy.flowing and copy.settled and copy.next_offset == self._idle_offset
        self._idle_offset = copy.next_offset if copy.next_offset is not None else -1
        if still and self.leader is not None:
            self.lane.after(self.world.delay_ms(), self._compare_end, self.leader)
        self.attend()

    def _compare_end(self, leader: Led) -> None:
        partition, copy = self.world.target.partition, self.copy
        if self.over or partition is None or leader.leader in partition.down:
            return
        error, end = partition.log_end(leader.leader, leader.epoch)
        moved_on = not (copy.flowing and copy.settled) or copy.next_offset != self._idle_offset
        if not error and not moved_on and end != copy.next_offset:
            copy.interrupted(Trouble(Event.UNSETTLED, f"the target ends at {end}"))
            self.attend()
