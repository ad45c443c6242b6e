"""The one judge: P1 to P4 of every target log, at every step and at the end; and that each copy ends or says why not.

P1, P2, P4  up to the high watermark every record of the target is the source's at the same offset, and none is missing;
            where the source has nothing to copy, the target has a marker, or its log starts behind it
P5          in batches of the source's codec, however many of its batches are in one
P3, P6      where the logs were changed from outside, the copy is stopped, with a reason that the fault explains, and
            nobody went on behind it
pause       nobody appends to a partition from when it is answered that it is paused until it is to be resumed; but for
            lanes that whoever has answered knows nothing of, for as long as these go on by themselves
liveness    when the faults are over, all is copied, or the partition was stopped as above; a copy that waits for a
            transaction that nobody ends says that it is caught up
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from heliograph.cluster.properties import ClientProperties
from heliograph.copier.lease import ALIVE_S
from heliograph.model.partition import MirrorPartition
from heliograph.model.policy import OnLoss
from heliograph.model.states import PartitionState, StopReason
from heliograph.wire.batch import BatchHeader, read_header
from heliograph.wire.error_codes import ErrorCode

from .alignment_judge import AlignmentJudge
from .built_history import BuiltHistory
from .consumer_view import view_of
from .log_cleaner import holds_filler
from .model_broker import ModelPartition
from .plan import Content
from .raw_batch import DAY_MS
from .record_reader import SeenRecord
from .replica import Replica, Stored
from .sim_lane import SimLane
from .source_content import BIG_AT
from .source_history import SourceHistory
from .source_log import SourceLog
from .target_log import TargetLog
from .virtual_loop import Process

if TYPE_CHECKING:
    from .sim_driver import SimDriver
    from .world import World

OLD_MS = DAY_MS // 2
IN_FLIGHT = ClientProperties(bootstrap_servers=()).max_in_flight_requests_per_connection
_CHANGED = {StopReason.ANCHOR, StopReason.TARGET_AHEAD, StopReason.SEQUENCE, StopReason.FOREIGN}
EXPLAINED: dict[str, set[StopReason]] = {
    "foreign writer": {*_CHANGED, StopReason.WRONG_PLACE},
    # Lost: what was on its way is in the new log, which then ends below a source that starts above 0.
    "target recreated": {*_CHANGED, StopReason.RECREATED, StopReason.WRONG_PLACE, StopReason.LOST},
    # Log start: it ends below the offset at which the mirror was to begin.
    "source truncated": {*_CHANGED, StopReason.DIVERGED, StopReason.HOLES, StopReason.LOG_START},
    "source recreated": {
        *_CHANGED,
        StopReason.DIVERGED,
        StopReason.RECREATED,
        StopReason.HOLES,
        StopReason.LOG_START,
    },
    "target stamps its time": {StopReason.TOPIC_CONFIG, StopReason.ANCHOR},
    "rights are lost": {StopReason.REFUSED},
    "retention overtakes": {StopReason.LOST},
    "no markers": {StopReason.REFUSED},
    "big": {StopReason.TOO_LARGE},
    "big and old": {StopReason.TOO_LARGE},
    "future": {StopReason.TIMESTAMP},
}


class Wrong(Exception):
    """A promise is broken."""


class PartitionJudge:
    def __init__(
        self, world: World, key: MirrorPartition, content: Content, source: SourceLog, target: TargetLog
    ) -> None:
        self.key = key
        self.source = source
        self.target = target
        self.excused = False
        self.merges = 0  # appends that hold more than one batch of the source
        self.out_of_order = 0  # appends that were refused so: somebody was first
        self.stops: dict[str, str] = {}  # what copiers of it have met: reason, words
        self._world = world
        self.kind = content.kind
        self.first_end = source.readable_end  # before anything happened
        self._content = content
        self._seen: tuple[str, int, int] = ("", -1, -1)
        self._judged_batches = 0
        self._foreign: tuple[ModelPartition, int] | None = None
        self._behind_foreign = 0
        self._misplaced: tuple[ModelPartition, int] | None = None
        link = next(link for link in world.links if link.name == key.link)
        self.continues = link.policy.on_loss is OnLoss.CONTINUE  # behind what retention took
        self._history = BuiltHistory(source) if world.plan.builds else SourceHistory(source)
        self._alignment = AlignmentJudge(source, lambda: world.eye.goal_of(key))
        self._found_identical: tuple[object, ...] = ()
        self._target_recreated = False
        self._target_stamps = False
        self._rights_lost = False
        self._records_lost = False
        self._accepted: set[int] = set()  # offsets that an operator agrees to lose
        self._goes_on = False  # without them
        self._paused: tuple[float, SimDriver] | None = None  # since when, and who has answered so
        self._stamped = 0
        self._raced_over_old = False
        source.on_cut = self.source_changed
        source.on_retention = self._history.retain_from
        target.judge = self

    # -- what the faults tell

    @property
    def copied_to(self) -> int:
        """All before it is on the target, for good."""
        return 0 if self.target.partition is None else self.target.partition.leader_replica.high_watermark

    @property
    def brokers_are_well(self) -> bool:
        """Those that lead the partition, that must hold what is appended, and that say who copies it."""
        world, ours, theirs = self._world, self.source, self.target
        sides = (
            (ours.partition, world.clusters[self.key.link.split("-")[0]]),
            (theirs.partition, world.clusters["nyc"]),
        )
        coordinators = (group.node not in world.clusters["nyc"].answering for group in world.groups)
        return not any(coordinators) and not any(
            partition is None or any(n in cluster.down or cluster.is_frozen(n) for n in partition.in_sync)
            for partition, cluster in sides
        )

    def foreign_written(self, partition: ModelPartition, end: int) -> None:
        self._foreign = (partition, end)

    def _foreign_end(self, partition: ModelPartition) -> int | None:
        """Where the foreign record ends, while the leader's log holds it: an unclean election may take it away."""
        if self._foreign is None or self._foreign[0] is not partition:
            return None
        stored = partition.leader_replica.holding(self._foreign[1] - 1)
        return self._foreign[1] if stored is not None and stored.header.producer_id < 0 else None

    def misplaced_unawares(self, partition: ModelPartition, offset: int) -> None:
        """No guard can exist here: an unclean election took away records and what the broker remembered of us, and the
        same broker leads again before the copier hears of it. What it sends is taken for the first ever."""
        self.excused = True
        self._misplaced = (partition, min(offset, self._misplaced[1]) if self._misplaced else offset)

    def target_recreated(self) -> None:
        self._target_recreated = True

    def told_of_race(self, batch: memoryview) -> None:
        """A lane is told that another one was before it."""
        old = read_header(batch).max_timestamp < self._world.wall_ms - OLD_MS
        self._raced_over_old = self._raced_over_old or old

    def target_stamps(self) -> None:
        self._target_stamps = True

    def rights_lost(self) -> None:
        self._rights_lost = True

    def records_lost(self) -> None:
        """Retention has deleted what was not copied yet."""
        self._records_lost = not self.continues
        self._goes_on = False

    def accept_loss(self, first_offset: int, next_offset: int) -> None:
        """An operator does."""
        self._accepted.update(range(first_offset, next_offset))

    def goes_on_without(self) -> None:
        """It is answered that a loss was accepted."""
        self._goes_on = True

    def stop_written(self, code: str) -> None:
        """That it is stopped is in the ledger, and counts."""
        if code == StopReason.LOST and self._goes_on:
            raise Wrong(
                f"P6: {self.key}: it is written to be stopped for a loss that an operator has accepted"
            )

    def paused(self, by: SimDriver) -> None:
        """Whoever takes over says so again."""
        since = self._world.now if self._paused is None else self._paused[0]
        self._paused = (since, by)

    def resumed(self) -> None:
        """Or another command has come, and nothing is promised before it is answered."""
        self._paused = None

    def sent(self, lane: Process, at: float) -> None:
        """What a lane has sent at that time is executed."""
        if self._paused is None or at <= self._paused[0]:
            return
        since, driver = self._paused
        keeper = driver.mirror._keeper if driver.mirror is not None and not driver.dead else None
        known = keeper is not None and any(
            isinstance(lane, SimLane) and lane.driver is driver and view.pid == lane.pid
            for view in keeper.lanes
        )
        if known or at > since + ALIVE_S:
            raise Wrong(
                f"pause: {self.key}: {lane.name} has sent an append at {at:.3f}, and it is answered to be paused since"
                f" {since:.3f}"
            )

    def told_of_loss(self, first_offset: int, next_offset: int) -> None:
        """A driver hears that a copier goes on without these."""
        accepted = self.continues or self._accepted.issuperset(range(first_offset, next_offset))
        if not accepted or next_offset > self.source.start:
            if not self.loud:
                raise Wrong(
                    f"loss: {self.key}: [{first_offset}, {next_offset}) are said to be lost, and the source starts at"
                    f" {self.source.start}"
                )
            return
        self._history.told_lost.update(range(first_offset, next_offset))

    def source_changed(self, at: int) -> None:
        """From this offset on the source holds, or will hold, something else."""
        self._history.change(at)

    @property
    def loud(self) -> bool:
        """A fault has happened after which the copier need only be loud."""
        changed = self._target_recreated or self._target_stamps or self._history.changed_at is not None
        taken = self._rights_lost or (self._records_lost and not self._goes_on)
        return bool(self._foreign or self._misplaced or changed or taken)

    # -- at every step

    def look(self) -> None:
        partition = self.target.partition
        if partition is None:
            return
        replica = partition.leader_replica
        seen = (partition.topic_id, partition.truth.epoch, replica.high_watermark)
        if seen == self._seen:
            return
        if seen[:2] != self._seen[:2]:
            self._judged_batches = self._stamped = 0  # another leader's log is looked at from its beginning
        self._seen = seen
        for stored in replica.batches[self._judged_batches :]:
            if stored.header.next_offset > replica.high_watermark:
                break
            self._judged_batches += 1
            self._judge(partition, stored)

    def _judge(self, partition: ModelPartition, stored: Stored) -> None:
        offset = stored.header.base_offset
        foreign_end = self._foreign_end(partition)
        if self._misplaced is not None and self._misplaced[0] is partition and offset >= self._misplaced[1]:
            return
        if foreign_end is not None and stored.header.next_offset >= foreign_end:
            return
        if self._target_recreated and (stored.header.is_control or not self._world.plan.produces_by_id):
            return  # markers go by the topic's name
        if self._target_stamps and stored.header.is_log_append_time:
            self._count_stamped()
            return
        if (differs := self._history.differs(stored)) and not self._alignment.is_filler(stored):
            raise Wrong(
                f"P2, P5: {self.key}: the target's batch [{offset}, {stored.header.next_offset}) {differs}"
                f" (high watermark {self._seen[2]})"
            )

    def _count_stamped(self) -> None:
        """What was on its way when the target began to may be rewritten, and no more."""
        self._stamped += 1
        if self._stamped > IN_FLIGHT * self._world.lanes_ever:
            raise Wrong(
                f"P5: {self.key}: {self._stamped} batches were appended though the target stamps its time"
            )

    def appended(self, partition: ModelPartition, node: int, stored: Stored, *, unaware: bool) -> None:
        """A copier's batch or marker is in a log. `unaware`: it has not heard of an unclean election."""
        offset = stored.header.base_offset
        filler = self._alignment.is_filler(stored)
        theirs = None if self.loud or filler else self.source.holding(offset)
        self.merges += theirs is not None and stored.header.next_offset > theirs.header.next_offset
        if unaware and self._is_misplaced(stored):
            self.misplaced_unawares(partition, offset)
        # What retention takes amid a build gets fillers, too, or the target is aligned anew.
        overtaken = self._world.plan.builds and self.source.start > self._content.log_start
        if self._alignment.concerned and not (self.loud or overtaken or stored.header.is_control):
            self._judge_alignment(partition.replicas[node], stored)
        foreign_end = self._foreign_end(partition)
        if foreign_end is None or offset < foreign_end:
            return
        self._behind_foreign += 1
        limit = IN_FLIGHT * self._world.lanes_ever
        if self._behind_foreign > limit:
            raise Wrong(f"P6: {self.key}: more than {limit} batches were appended behind a foreign record")

    def _is_misplaced(self, stored: Stored) -> bool:
        """A batch was meant for the offset that is its sequence number, as long as there was no gap."""
        gaps = self._content.has_gaps or self._history.told_lost
        out_of_step = stored.header.base_offset != stored.header.base_sequence and not gaps
        return out_of_step or bool(self._history.differs(stored) and not self._alignment.is_filler(stored))

    def _judge_alignment(self, replica: Replica, stored: Stored) -> None:
        if not self._history.differs(stored):
            wrong = self._alignment.copied(replica, stored)
        elif self._alignment.is_filler(stored):
            wrong = self._alignment.filled(replica, stored)
        else:
            return  # that is for `look`
        if wrong:
            raise Wrong(f"alignment: {self.key}: the batch at {stored.header.base_offset} {wrong}")

    def deleted(self, before_offset: int) -> None:
        """A copier has moved the start of the target's log."""
        if not self.loud and (wrong := self._alignment.deleted(before_offset)):
            raise Wrong(f"alignment: {self.key}: a copier {wrong}")

    def cleaned(self) -> None:
        """A cleaner has been there: what it has left is looked at again."""
        self._seen = ("", -1, -1)
        self.look()

    def built(self) -> None:
        """Its topic is said to be like any other: consumers may come."""
        for node, replica in self.target.partition.replicas.items() if self.target.partition else ():
            if any(map(holds_filler, replica.batches)):
                raise Wrong(f"build: {self.key}: it is said to be built, and broker {node} holds fillers")

    def refused(self, error: int, header: BatchHeader) -> None:
        """A copier's batch is not taken, for this reason."""
        if error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            self.out_of_order += 1
        too_large = error in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
        if too_large and self.kind not in BIG_AT and not self._world.takes_less(self.key.target_topic):
            raise Wrong(
                f"size: {self.key}: a batch of {header.size_bytes} bytes was sent at {header.base_sequence}, and every"
                " driver could know that the topic takes less"
            )

    # -- at the end

    @property
    def done(self) -> bool:
        """Nothing more is to come."""
        return self.source.complete and ((self._identical() and self._says_so()) or self._stopped())

    def conclude(self) -> None:
        self._explain_stops()
        if self._must_have_met_rival and StopReason.RIVAL not in self.stops:
            raise Wrong(f"P6: {self.key}: two raced over old records, and nobody says so: {self._how_far()}")
        if self._identical():
            self._compare_views()
            if self._says_so():
                return
        if self._stopped() and self._may_stop():
            return
        if self.loud:
            raise Wrong(f"P6: {self.key}: neither stopped nor identical: {self._how_far()}")
        raise Wrong(f"liveness: {self.key}: the copy does not end: {self._how_far()}")

    @property
    def _must_have_met_rival(self) -> bool:
        return self._world.plan.bounds.rivals and self._raced_over_old

    def _may_stop(self) -> bool:
        return self.loud or self.kind in EXPLAINED or self._must_have_met_rival or self._cannot_fill

    @property
    def _cannot_fill(self) -> bool:
        return self._content.has_gaps and not self._world.plan.gaps.may_mark

    def _says_so(self) -> bool:
        """Where a transaction hangs: that the copy has all there is to copy."""
        rows = [row for active, row in self._world.rows_of(self.key) if active]
        return not self.source.hangs or any(row.state is PartitionState.CAUGHT_UP for row in rows)

    def _compare_views(self) -> None:
        """A consumer reads the same of both logs, whether or not it asks the target for committed records only."""
        target, source = self.target.partition, self.source.partition
        concerned = self._content.has_gaps or self._alignment.concerned or self._world.plan.builds
        if target is None or source is None or not concerned:
            return
        start = max(target.leader_replica.start, source.leader_replica.start)
        wanted = _from(start, view_of(source, committed=self.source.committed))
        for committed in (True, False):
            if _from(start, view_of(target, committed=committed)) != wanted:
                how = "read_committed" if committed else "read_uncommitted"
                raise Wrong(f"P1: {self.key}: a {how} consumer of the target reads something else")

    def _explain_stops(self) -> None:
        explained = EXPLAINED.get(self.kind, set())
        if self.loud:
            explained = explained | EXPLAINED[self._world.plan.loud or "foreign writer"]
        if self._records_lost:
            explained = explained | EXPLAINED["retention overtakes"]
        if self._must_have_met_rival:
            explained = explained | {StopReason.RIVAL}
        if self._cannot_fill:
            explained = explained | EXPLAINED["no markers"]
        for _, row in self._world.rows_of(self.key):
            if row.reason is not None:
                self.stops.setdefault(row.reason, row.error or "")
        for reason, words in self.stops.items():
            if reason not in explained:
                raise Wrong(f"{self.key}: stopped without cause: {reason}: {words}")

    def _identical(self) -> bool:
        partition, source = self.target.partition, self.source.partition
        if partition is None or source is None:
            return False
        replica, log = partition.leader_replica, self.source.log
        if not replica.end == replica.high_watermark == self.source.readable_end:
            return False
        if replica.start > self._alignment.goal and self._history.changed_at is None:
            return False  # a source that was recreated starts at 0 again, whatever the target was aligned to
        state = (partition, partition.truth.epoch, replica.end, source, log[-1] if log else None)
        if state != self._found_identical and not any(map(self._history.differs_now, replica.batches)):
            self._found_identical = state
        return state == self._found_identical

    def _stopped(self) -> bool:
        """By the drivers that hold the link. In a race one is enough: nobody tells the others."""
        rows = self._world.rows_of(self.key)
        stopped = [row.state is PartitionState.STOPPED for active, row in rows if active]
        stopped = stopped or [row.state is PartitionState.STOPPED for _, row in rows]
        return any(stopped) if self._world.plan.racing else bool(stopped) and all(stopped)

    def _how_far(self) -> str:
        partition = self.target.partition
        ends = "no target" if partition is None else f"target at {partition.leader_replica.high_watermark}"
        phases = [
            f"{lane.name} {copy.phase.name} at {copy.next_offset} ({copy.trouble})"
            for lane in self._world.lanes
            if lane.lane is not None and (copy := lane.lane.copies.get(self.key)) is not None
        ]
        return f"{ends} of {self.source.readable_end}; {', '.join(phases) or 'no copier'}"


def _from(offset: int, view: dict[int, SeenRecord]) -> dict[int, SeenRecord]:
    return {at: record for at, record in view.items() if at >= offset}
