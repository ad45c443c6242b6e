"""The lanes of a run as the controller sees them: start, send, stop; events back.

    controller ── send ──▶ ControlServer ──▶ lane (Spark task)
        ▲                       │
        └───── LaneEvent ◀──────┴── LaneJobs (a lane's job, the JVM)

Owns the run's secret. Events are handed to `on_event` from other threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from heliograph.engine.assignment import Progress, decode_progress
from heliograph.engine.control_server import ControlServer
from heliograph.engine.frames import Message, new_secret
from heliograph.engine.lane_jobs import LaneJobs
from heliograph.engine.lane_task import LaneTicket
from heliograph.engine.session import Session
from heliograph.model.settings import SparkSettings


@dataclass(frozen=True, slots=True)
class LaneUp:
    """A lane has connected: it holds no partition until it is given some."""

    lane: int
    pid: int
    host: str


@dataclass(frozen=True, slots=True)
class LaneProgress:
    lane: int
    partitions: tuple[Progress, ...]


@dataclass(frozen=True, slots=True)
class LaneGone:
    """The line of a lane has ended; it is started again by itself."""

    lane: int


@dataclass(frozen=True, slots=True)
class SparkLost:
    """Spark is gone; nothing can be started again."""

    message: str
    hint: str


LaneEvent = LaneUp | LaneProgress | LaneGone | SparkLost


class Lanes:
    def __init__(
        self,
        settings: SparkSettings,
        lane_memory_bytes: int,
        on_event: Callable[[LaneEvent], None],
        *,
        make_session: Callable[[SparkSettings], Session] = Session,
    ) -> None:
        self._memory_bytes = lane_memory_bytes
        self._on_event = on_event
        self._secret = new_secret()
        self._server = ControlServer(
            self._secret,
            self._received,
            lambda lane: self._on_event(LaneGone(lane)),
            on_silent=lambda lane: self._jobs.cancel(lane),
        )
        self.session = make_session(settings)
        self._jobs = LaneJobs(self.session, lambda loss: self._on_event(SparkLost(loss.message, loss.hint)))

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
        self._jobs.start(
            [
                LaneTicket(lane=lane, address=address, memory_bytes=self._memory_bytes, secret=self._secret)
                for lane in range(count)
            ]
        )

    def send(self, lane: int, messages: Iterable[Message]) -> None:
        for message in messages:
            self._server.send(lane, message)

    def ask_to_stop(self, count: int) -> None:
        """Lanes drain and end; none is started again."""
        self._jobs.stop()
        for lane in range(count):
            self._server.send(lane, {"type": "stop"})

    def close(self, timeout_s: float) -> None:
        """Wait for the jobs' end, then end everything that is left."""
        self._jobs.stop()
        if not self.session.lost and not self._jobs.join(timeout_s):
            self.session.cancel_all()
            self._jobs.join(timeout_s)
        self._server.stop()
        self.session.stop()

    def _received(self, lane: int, message: Message) -> None:
        match message.get("type"):
            case "hello":
                self._on_event(LaneUp(lane, int(message["pid"]), str(message["host"])))
            case "progress":
                rows = tuple(decode_progress(row) for row in message["partitions"])
                self._on_event(LaneProgress(lane, rows))
