"""The lanes of a run as the controller sees them: start, give orders, stop; events back.

    controller ── Order ─▶ ControlServer ──▶ lane (Spark task)
        ▲                       │
        └───── LaneEvent ◀──────┴── LaneJobs (a lane's job, the JVM)

Owns the run's secret, and knows until when each lane holds a lease: heartbeats are answered here, in the control line's
thread, so that a controller that is busy or slow ends no lease. Events are handed to `on_event` from other threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from heliograph.copier.lane_clusters import LinkClusters
from heliograph.copier.spec import CopySpec
from heliograph.engine.control_server import ControlServer
from heliograph.engine.decommission import DecommissionWatch
from heliograph.engine.lane_jobs import LaneJobs, job_group
from heliograph.engine.lane_log import repeat
from heliograph.engine.lane_task import LaneTicket
from heliograph.engine.orders import (
    Assign,
    Drained,
    GrantAttempts,
    Heartbeat,
    Hello,
    LogLine,
    Occurrences,
    OpenLinks,
    Progress,
    Renew,
    Report,
    Revoke,
    Revoked,
    Stop,
    WantsAttempts,
    portions,
)
from heliograph.engine.proof import new_secret
from heliograph.engine.session import Session
from heliograph.engine.versions import mismatch, versions
from heliograph.model.clock import HoldingClock, clock_of_suspended_time, clock_of_waits
from heliograph.model.events import Event
from heliograph.model.occurrence import Occurrence
from heliograph.model.outbox import Outbox
from heliograph.model.partition import MirrorPartition
from heliograph.model.partition_status import PartitionStatus
from heliograph.model.settings import SparkSettings


@dataclass(frozen=True, slots=True)
class LaneUp:
    """A lane has connected: it holds no partition until it is given some. `unfit`: why it may not be given any."""

    lane: int
    pid: int
    host: str
    unfit: str | None = None


@dataclass(frozen=True, slots=True)
class LaneProgress:
    lane: int
    partitions: tuple[PartitionStatus, ...]


@dataclass(frozen=True, slots=True)
class LaneTold:
    """What an operator must hear, in the order in which the lane met it."""

    lane: int
    occurrences: tuple[Occurrence, ...]


@dataclass(frozen=True, slots=True)
class LaneWantsAttempts:
    """Gaps of these partitions wait for an attempt above these (copier/fill.py). `pid`: the process that asks."""

    lane: int
    pid: int
    wants: tuple[tuple[MirrorPartition, int], ...]


@dataclass(frozen=True, slots=True)
class LaneRevoked:
    """A lane has let go of a partition. `clean`: nothing that it sent can still arrive."""

    lane: int
    partition: MirrorPartition
    clean: bool


@dataclass(frozen=True, slots=True)
class LaneGone:
    """The line of a lane has ended; it is started again by itself. `clean`: nothing that it sent can still arrive.
    `silent`: it gave no sign of life before."""

    lane: int
    clean: bool = False
    silent: bool = False


@dataclass(frozen=True, slots=True)
class SparkLost:
    """Spark is gone; nothing can be started again."""

    message: str
    hint: str


LaneEvent = LaneUp | LaneProgress | LaneTold | LaneWantsAttempts | LaneRevoked | LaneGone | SparkLost
Grants = Callable[[], Mapping[str, float]]


class Lanes:
    """`grants()`: how long, in seconds, the driver's own right to each link lasts; called from other threads. `clock`:
    the one that this right is counted by. What lanes tell is an event, for the controller's loop to put into the
    outbox: a log that takes its time must not hold up the control line."""

    def __init__(
        self,
        settings: SparkSettings,
        lane_memory_bytes: int,
        on_event: Callable[[LaneEvent], None],
        grants: Grants,
        outbox: Outbox,
        *,
        make_session: Callable[..., Session] = Session,
        make_server: Callable[..., ControlServer] = ControlServer,
        make_jobs: Callable[..., LaneJobs] = LaneJobs,
        clock: HoldingClock = clock_of_suspended_time,
    ) -> None:
        self._clock = clock
        self._memory_bytes = lane_memory_bytes
        self._on_event = on_event
        self._grants = grants
        self._outbox = outbox
        self._leased_until: dict[tuple[int, str], float] = {}
        self._clean: dict[int, bool] = {}
        self._mute: set[int] = set()
        self._leaving: DecommissionWatch | None = None
        self._ticket: LaneTicket | None = None  # of the first lane; those of others differ by their number
        self._versions = versions()
        self._secret = new_secret()
        self._server = make_server(
            self._secret,
            self._received,
            self._gone,
            on_silent=self._silent,
            outbox=outbox,
        )
        self.session = make_session(settings, outbox, lane_memory_bytes=lane_memory_bytes)
        self._jobs = make_jobs(
            self.session, lambda loss: self._on_event(SparkLost(loss.message, loss.hint)), outbox
        )

    @property
    def slots(self) -> int:
        return self.session.slots

    @property
    def local_slots(self) -> int | None:
        return self.session.local_slots

    def start(self, count: int) -> None:
        host = self.session.conf("spark.driver.host")
        bound_host, port = self._server.start(self.session.conf("spark.driver.bindAddress") or host)
        address = (host or bound_host, port)
        self._ticket = LaneTicket(
            lane=0,
            address=address,
            memory_bytes=self._memory_bytes,
            fingerprint=self._server.fingerprint,
            secret=self._secret,
        )
        if self.session.conf("spark.decommission.enabled") == "true":
            self._leaving = DecommissionWatch(self.session.context, self._hand_back)
        self.add(range(count))

    def add(self, lanes: Iterable[int]) -> None:
        """Start these, too."""
        assert self._ticket is not None
        lanes = list(lanes)
        if self._leaving is not None:
            self._leaving.watch({lane: job_group(lane) for lane in lanes})
        self._jobs.start([replace(self._ticket, lane=lane) for lane in lanes])

    def assign(
        self,
        lane: int,
        links: Sequence[LinkClusters],
        specs: Sequence[CopySpec],
        *,
        clear_in_s: float = 0.0,
        pid: int | None = None,
    ) -> None:
        """Partitions of these links to copy; the rest as in `Assign`. A lane that is away is given nothing."""
        self._server.send(lane, OpenLinks(links=tuple(links)))
        for portion in portions(specs):
            self._server.send(lane, Assign(specs=portion, clear_in_s=clear_in_s, pid=pid))

    def relink(self, lane: int, links: Sequence[LinkClusters]) -> None:
        """The links' secrets are others now."""
        self._server.send(lane, OpenLinks(links=tuple(links)))

    def revoke(self, lane: int, partitions: Sequence[MirrorPartition]) -> None:
        for portion in portions(partitions):
            self._server.send(lane, Revoke(partitions=portion))

    def grant_attempts(self, lane: int, attempts: Sequence[tuple[MirrorPartition, int]], *, pid: int) -> None:
        for portion in portions(attempts):
            self._server.send(lane, GrantAttempts(attempts=portion, pid=pid))

    def stop(self, lane: int) -> None:
        """It drains and ends."""
        self._server.send(lane, Stop())

    def leased_until(self, lane: int, link: str) -> float:
        """Until when this lane may hold a lease of the link, by `clock_of_waits`."""
        return self._leased_until.get((lane, link), float("-inf"))

    def abandon(self, lane: int) -> None:
        """End a lane that is of no use as it is; it is started again."""
        self._server.end_line(lane)
        self._jobs.cancel(lane)

    def ask_to_stop(self, count: int) -> None:
        """Lanes drain and end; none is started again."""
        self._jobs.stop()
        for lane in range(count):
            self.stop(lane)

    def close(self, timeout_s: float) -> None:
        """Wait for the jobs' end, then end everything that is left."""
        self._jobs.stop()
        if self._leaving is not None:
            self._leaving.end()
        if not self.session.lost and not self._jobs.join(timeout_s):
            self.session.cancel_all()
            self._jobs.join(timeout_s)
        self._server.stop()
        self.session.stop()

    def _received(self, lane: int, report: Report) -> None:
        match report:
            case Heartbeat(at=at, wants=wants, heard=heard):
                self._check_clock(lane, heard)
                self._renew(lane, at, wants)
            case Hello(pid=pid, host=host, versions=theirs):
                self._clean[lane] = False
                self._on_event(LaneUp(lane, pid, host, mismatch(self._versions, theirs)))
            case Progress(rows=rows):
                self._on_event(LaneProgress(lane, rows))
            case Occurrences(occurrences=occurrences):
                self._on_event(LaneTold(lane, occurrences))
            case WantsAttempts(wants=wanted, pid=pid):
                self._on_event(LaneWantsAttempts(lane, pid, wanted))
            case Revoked(partition=partition, clean=clean):
                self._on_event(LaneRevoked(lane, partition, clean))
            case Drained(clean=clean):
                self._clean[lane] = clean
            case LogLine():
                repeat(lane, report)

    def _hand_back(self, lane: int, executor: str) -> None:
        """Its executor is being taken away: it drains, and is started again on another one."""
        words = f"lane {lane}: Spark takes executor {executor} away; the lane hands its partitions back"
        self._outbox.tell(Event.LANE_LEAVING, words)
        self.stop(lane)

    def _silent(self, lane: int) -> None:
        self._mute.add(lane)
        self._jobs.cancel(lane)

    def _gone(self, lane: int) -> None:
        silent = lane in self._mute
        self._mute.discard(lane)
        self._on_event(LaneGone(lane, self._clean.pop(lane, False), silent))

    def _check_clock(self, lane: int, heard: tuple[float, float] | None) -> None:
        """`heard`: the time by our clock as the lane last heard it, and for how long it has counted since. If that is
        later than it is here, this machine stood still meanwhile, and our right may be over: what this heartbeat asks
        for must not be granted by a clock that has missed that."""
        behind_s = self._clock.at_least(sum(heard)) if heard is not None else 0.0
        if behind_s:
            self._outbox.tell(
                Event.STOOD_STILL,
                f"the driver stood still for {behind_s:.0f} s, by the clock of lane {lane}: leases are taken for that"
                " much older",
            )

    def _renew(self, lane: int, asked_at: float, wants: Sequence[str]) -> None:
        """The lane counts from when it asked, which was before now: its lease ends before what is noted here. Leases
        that nobody needs are not given (0): where there was none, a lane that is lost is replaced at once. Of a link
        that is not ours for certain there is no word at all."""
        ours = {link: lasts_s for link, lasts_s in self._grants().items() if lasts_s > 0}
        grants = {link: lasts_s if link in wants else 0.0 for link, lasts_s in ours.items()}
        now = clock_of_waits()
        for link in wants:
            lasts_s = grants.get(link, 0.0)
            self._leased_until[lane, link] = max(now + lasts_s, self.leased_until(lane, link))
        self._server.send(lane, Renew(asked_at=asked_at, leases=grants, now=self._clock()))
