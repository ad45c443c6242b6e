"""The board: how every partition of the run stands, from the lanes' reports. No I/O; `now` is an argument."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass

from heliograph.controller.plan import (
    AwaitPartition,
    CleanPartition,
    CopyPartition,
    LeavePartition,
    PausePartition,
    RefusePartition,
)
from heliograph.model.events import Event
from heliograph.model.hints import hint_for
from heliograph.model.partition import MirrorPartition
from heliograph.model.partition_status import Aligning, PartitionStatus
from heliograph.model.states import BoundBy, BuildPhase, PartitionState

RATE_WINDOW_S = 5.0
NOTHING = (0, 0)


@dataclass(slots=True)
class _Sums:
    """Of a link's rows. Kept, not counted: they are asked for ten times a second, whatever the number of rows."""

    records: int = 0
    size_bytes: int = 0
    behind: int = 0
    lag: int = 0  # the same without what is stopped
    unfinished: int = 0  # partitions that this run can bring to their goals

    def count(self, row: PartitionStatus, sign: int) -> None:
        stopped, behind = row.state is PartitionState.STOPPED, row.behind
        self.records += sign * row.records
        self.size_bytes += sign * row.size_bytes
        self.behind += sign * behind
        self.lag += 0 if stopped else sign * behind
        idle = stopped or row.awaits_topic or row.state is PartitionState.PAUSED
        self.unfinished += 0 if idle or row.reached_goal else sign


class Board:
    """`planned` False: there was no plan yet, so that nothing can be said to have been finished."""

    def __init__(
        self,
        copies: Iterable[CopyPartition],
        refusals: Iterable[RefusePartition],
        awaited: Iterable[AwaitPartition] = (),
        paused: Iterable[PausePartition] = (),
        cleaning: Iterable[CleanPartition] = (),
        *,
        planned: bool = True,
    ) -> None:
        self._planned = planned
        self.rows: dict[MirrorPartition, PartitionStatus] = {}
        # What its lane has counted since it was given the partition: records, bytes.
        self._seen: dict[MirrorPartition, tuple[int, int]] = {}
        self._samples: deque[tuple[float, dict[str, tuple[int, int]]]] = deque()
        self._sums: defaultdict[str, _Sums] = defaultdict(_Sums)  # by link
        self._stopped: dict[MirrorPartition, None] = {}
        self._topics: defaultdict[tuple[str, str], dict[MirrorPartition, None]] = defaultdict(dict)
        for copy in copies:
            self._put(_pending(copy))
        for refusal in refusals:
            self._put(_refused(refusal))
        for each in awaited:
            self._put(_awaited(each))
        for wish in paused:
            self._put(_paused(wish))
        for each_cleaned in cleaning:
            self._put(_cleaning(each_cleaned))

    def _put(self, row: PartitionStatus) -> None:
        """In the place of the one that there was, if any."""
        key = row.partition
        self._uncount(key)
        self.rows[key] = row
        self._topics[key.link, key.target_topic][key] = None
        self._sums[key.link].count(row, 1)
        if row.state is PartitionState.STOPPED:
            self._stopped[row.partition] = None
        else:
            self._stopped.pop(row.partition, None)

    def _uncount(self, key: MirrorPartition) -> None:
        old = self.rows.get(key)
        if old is not None:
            self._sums[key.link].count(old, -1)

    def report(self, lane: int, progress: PartitionStatus) -> None:
        """Take in a lane's report."""
        old = self.rows.get(progress.partition)
        if (
            old is None or old.refused or old.state is PartitionState.PAUSED
        ):  # a lane that has not heard of it yet
            return
        counted = (progress.records, progress.size_bytes)
        seen = self._seen.get(progress.partition, NOTHING)
        seen = seen if counted[1] >= seen[1] else NOTHING  # a lane that has begun anew
        self._seen[progress.partition] = counted
        row = progress._replace(
            next_offset=old.next_offset if progress.next_offset is None else progress.next_offset,
            source_end=max(progress.source_end or 0, old.source_end or 0),
            records=old.records + counted[0] - seen[0],
            size_bytes=old.size_bytes + counted[1] - seen[1],
            lane=lane,
            goal=old.goal,
            held_by=old.held_by,
            # A lane knows a position only from a resynchronisation.
            compared=old.compared or progress.next_offset is not None,
        )
        self._put(row)

    def lane_gone(self, lane: int) -> None:
        for key in [key for key, row in self.rows.items() if row.lane == lane]:
            self.let_go(key)

    def let_go(self, partition: MirrorPartition) -> None:
        """Its lane has let it go."""
        row = self.rows.get(partition)
        if row is not None:
            self._seen[partition] = NOTHING
            kept = row.state in (PartitionState.STOPPED, PartitionState.PAUSED)
            state = row.state if kept else PartitionState.PENDING
            self._put(row._replace(lane=None, state=state, bound_by=None, aligning=None))

    def stand_by(self, link: str, active: str) -> None:
        """Another run is the link's active driver."""
        for row in [row for key, row in self.rows.items() if key.link == link]:
            self._put(row._replace(held_by=active))

    def adopt(
        self,
        link: str,
        copies: Iterable[CopyPartition],
        refusals: Iterable[RefusePartition],
        left: Iterable[LeavePartition] = (),
        awaited: Iterable[AwaitPartition] = (),
        paused: Iterable[PausePartition] = (),
        cleaning: Iterable[CleanPartition] = (),
        *,
        written: bool = False,
    ) -> list[RefusePartition]:
        """A link's rows, as planned just now; the refusals of those that were not stopped before. `written`: what a
        lane has stopped is written down, and so part of the plan, unless somebody has resolved it since."""
        known = {key: row for key, row in self.rows.items() if key.link == link}
        self._drop(known)
        planned = (
            *map(_pending, copies),
            *map(_left, left),
            *map(_awaited, awaited),
            *map(_cleaning, cleaning),
        )
        for row in planned:
            self._put(_continued(known.get(row.partition), row, anew=written))
        told = []
        for each in paused:
            self._put(_continued(known.get(each.partition), _paused(each), anew=True))
        for refusal in refusals:
            before, row = known.get(refusal.partition), _refused(refusal)
            kept = before is not None and _stopped_by_lane(before) and not written
            self._put(_continued(before, row) if kept else row)
            if before is None or before.state is not PartitionState.STOPPED:
                told.append(refusal)
        return told

    def adopt_again(
        self,
        copies: Iterable[CopyPartition] = (),
        refusals: Iterable[RefusePartition] = (),
        paused: Iterable[PausePartition] = (),
        awaited: Iterable[AwaitPartition] = (),
        cleaning: Iterable[CleanPartition] = (),
        left: Iterable[LeavePartition] = (),
    ) -> None:
        """Partitions that no lane has, as an operator wants them or a plan has found them now: those that are new, and
        those that were stopped, too."""
        waiting = (
            *map(_paused, paused),
            *map(_awaited, awaited),
            *map(_cleaning, cleaning),
            *map(_left, left),
        )
        rows = (*map(_pending, copies), *map(_refused, refusals), *waiting)
        for row in rows:
            self._seen[row.partition] = NOTHING
            self._put(_continued(self.rows.get(row.partition), row, anew=True))

    def remove(self, partitions: Iterable[MirrorPartition]) -> None:
        """They are not mirrored any more, and no lane has them."""
        partitions = list(partitions)
        self._drop(partitions)
        for key in partitions:
            self._seen.pop(key, None)

    def _drop(self, partitions: Iterable[MirrorPartition]) -> None:
        for key in partitions:
            self._uncount(key)
            self._stopped.pop(key, None)
            if self.rows.pop(key, None) is not None:
                self._topics[key.link, key.target_topic].pop(key, None)

    def cleaned(self, partition: MirrorPartition, replicas: int) -> None:
        """So many of its replicas hold no filler any more."""
        row = self.rows.get(partition)
        if row is not None and row.aligning is not None and row.lane is None:
            self._put(row._replace(aligning=row.aligning._replace(replicas_clean=replicas)))

    def waits_for_brokers(self, partitions: Iterable[MirrorPartition], trouble: str | None) -> None:
        """Those that are cleaned. None: brokers are at work."""
        for row in [self.rows[key] for key in partitions if key in self.rows]:
            if row.state is PartitionState.ALIGNING and row.lane is None:
                event = Event.NOT_CLEANED if trouble is not None else None
                self._put(row._replace(trouble=trouble, event=event))

    def lane_waits(self, partitions: Iterable[MirrorPartition], trouble: str, hint: str) -> None:
        """Their lane has not come up yet; what stopped keeps its own words."""
        self._tell(partitions, trouble, hint)

    def lane_up(self, partitions: Iterable[MirrorPartition]) -> None:
        """What was said while they waited is over."""
        self._tell(partitions, None, None)

    def _tell(self, partitions: Iterable[MirrorPartition], trouble: str | None, hint: str | None) -> None:
        for key in partitions:
            row = self.rows[key]
            if row.state is not PartitionState.STOPPED and row.held_by is None:
                self._put(row._replace(trouble=trouble, hint=hint))

    # -- what is there

    def partitions_of(self, link: str, target_topic: str) -> list[MirrorPartition]:
        return list(self._topics.get((link, target_topic), ()))

    @property
    def copied_partitions(self) -> int:
        """Those that a lane has, or is to have."""
        idle = (PartitionState.STOPPED, PartitionState.PAUSED)
        return sum(
            row.state not in idle and not row.awaits_topic and row.held_by is None
            for row in self.rows.values()
        )

    def by_source_topic(self, link: str) -> dict[str, list[PartitionStatus]]:
        found: dict[str, list[PartitionStatus]] = {}
        for (of, _), keys in self._topics.items():
            if of == link:
                for key in keys:
                    found.setdefault(key.source_topic, []).append(self.rows[key])
        return found

    # -- sums

    @property
    def copied_records(self) -> int:
        return sum(each.records for each in self._sums.values())

    @property
    def copied_bytes(self) -> int:
        return sum(each.size_bytes for each in self._sums.values())

    @property
    def goal_records(self) -> int:
        """What is copied, and all that is known to be left."""
        return sum(each.records + each.behind for each in self._sums.values())

    @property
    def lag_records(self) -> int:
        """Without stopped partitions: of one that a plan refused, nobody has asked how far it is."""
        return sum(each.lag for each in self._sums.values())

    @property
    def stopped(self) -> list[PartitionStatus]:
        return [self.rows[key] for key in self._stopped]

    @property
    def awaiting_topics(self) -> list[PartitionStatus]:
        """Those that are not copied before an operator has created their target topics."""
        return [row for row in self.rows.values() if row.awaits_topic]

    @property
    def paused(self) -> list[PartitionStatus]:
        return [row for row in self.rows.values() if row.state is PartitionState.PAUSED]

    @property
    def finished(self) -> bool:
        """Every partition reached its goal, or stopped, or is paused, or has no target topic that this run could
        create."""
        return self._planned and not any(each.unfinished for each in self._sums.values())

    def bound_by(self, link: str) -> BoundBy | None:
        """What most of the link's partitions wait for that are behind; None: none of them is."""
        behind = Counter(
            row.bound_by
            for row in self.rows.values()
            if row.partition.link == link and row.bound_by and row.behind
        )
        return behind.most_common(1)[0][0] if behind else None

    def sample(self, now: float) -> None:
        """Remember where the links stand, for `rates`."""
        totals = {link: (each.records, each.size_bytes) for link, each in self._sums.items()}
        self._samples.append((now, totals))
        while len(self._samples) > 2 and self._samples[1][0] <= now - RATE_WINDOW_S:
            self._samples.popleft()

    def rates(self, link: str) -> tuple[float, float]:
        """Records and bytes per second over the last seconds."""
        if len(self._samples) < 2:
            return 0.0, 0.0
        (then, before), (now, after) = self._samples[0], self._samples[-1]
        elapsed = max(now - then, 1e-9)
        old, new = before.get(link, (0, 0)), after.get(link, (0, 0))
        return max(new[0] - old[0], 0) / elapsed, max(new[1] - old[1], 0) / elapsed


def _continued(
    before: PartitionStatus | None, row: PartitionStatus, *, anew: bool = False
) -> PartitionStatus:
    """The run's own count and goal go on; what a lane has stopped stays so, unless it begins `anew`."""
    if before is None:
        return row
    if _stopped_by_lane(before) and not anew:
        return before._replace(held_by=row.held_by)
    goal = row.goal if before.goal is None else before.goal
    # What is paused stands where a lane has left it; whoever is given it next compares anew.
    compared = before.compared and row.state is PartitionState.PAUSED
    return row._replace(goal=goal, records=before.records, size_bytes=before.size_bytes, compared=compared)


def _stopped_by_lane(row: PartitionStatus) -> bool:
    """What a lane has met stays, whatever a plan says; a refusal is as good as the plan that it is of."""
    return row.state is PartitionState.STOPPED and not row.refused


def _pending(copy: CopyPartition) -> PartitionStatus:
    return PartitionStatus(
        partition=copy.spec.partition,
        state=PartitionState.PENDING,
        next_offset=copy.next_offset or 0,
        source_end=copy.source_end,
        goal=copy.goal,
    )


def _left(left: LeavePartition) -> PartitionStatus:
    return PartitionStatus(
        partition=left.partition,
        state=PartitionState.PENDING,
        next_offset=left.next_offset or 0,
        source_end=left.goal or 0,
        goal=left.goal,
        held_by=str(left.holder),
    )


def _awaited(awaited: AwaitPartition) -> PartitionStatus:
    return PartitionStatus(
        partition=awaited.partition,
        state=PartitionState.PENDING,
        next_offset=0,
        source_end=awaited.goal or 0,
        goal=awaited.goal,
        trouble=awaited.why,
        event=Event.TOPIC_MISSING,
        hint=awaited.command,
    )


def _cleaning(each: CleanPartition) -> PartitionStatus:
    end = each.next_offset or 0
    return PartitionStatus(
        partition=each.partition,
        state=PartitionState.ALIGNING,
        next_offset=end,
        source_end=each.goal or 0,
        goal=each.goal,
        aligning=Aligning(BuildPhase.CLEANING, end, end, replicas_clean=0),
    )


def _paused(paused: PausePartition) -> PartitionStatus:
    return PartitionStatus(
        partition=paused.partition,
        state=PartitionState.PAUSED,
        next_offset=paused.next_offset or 0,
        source_end=paused.goal or 0,
        goal=paused.goal,
        trouble=paused.words,
    )


def _refused(refusal: RefusePartition) -> PartitionStatus:
    return PartitionStatus(
        partition=refusal.partition,
        state=PartitionState.STOPPED,
        next_offset=0,
        source_end=0,
        goal=None,
        reason=refusal.why.reason,
        error=refusal.why.message,
        hint=hint_for(refusal.partition, refusal.why.hint),
        refused=True,
    )
