"""The lanes of a run: leases are granted on in the line's own thread, and every end is told as what it was."""

from __future__ import annotations

import asyncio
import math
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from heliograph.copier.lane import Lane
from heliograph.engine import control_line, control_server, lane_jobs, lane_lines
from heliograph.engine import lanes as lanes_module
from heliograph.engine.control_line import ControlLine
from heliograph.engine.lane_jobs import job_group
from heliograph.engine.lane_task import LaneTask, LaneTicket
from heliograph.engine.lanes import (
    LaneEvent,
    LaneGone,
    LaneProgress,
    LaneRevoked,
    Lanes,
    LaneTold,
    LaneUp,
    SparkLost,
)
from heliograph.engine.orders import (
    ROWS_PER_FRAME,
    Assign,
    Drained,
    GrantAttempts,
    Heartbeat,
    Hello,
    Occurrences,
    OpenLinks,
    Order,
    Progress,
    Renew,
    Report,
    Revoke,
    Revoked,
    Stop,
)
from heliograph.engine.session import CONTEXT_STOPPED, Session
from heliograph.engine.versions import versions
from heliograph.model import clock
from heliograph.model.clock import HoldingClock, clock_of_suspended_time, clock_of_waits
from heliograph.model.events import Event, Trouble
from heliograph.model.occurrence import of_trouble
from heliograph.model.occurrence_log import logged
from heliograph.model.outbox import Outbox
from heliograph.model.settings import SparkSettings
from tests.controller.observed import partition, progress
from tests.controller.played import ENDS
from tests.copier.source_batches import spec_of

from .played_spark import SOON_S, PlayedSpark, until

AT = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
RACES = tuple(
    of_trouble(
        partition(), Trouble(Event.RACED, f"another copier had appended offset {at} before", at, at + 3), AT
    )
    for at in (5, 8)
)
HELLO = Hello(pid=42, host="there", versions=versions())


class Run:
    """Lanes on a played Spark, and all that they told."""

    def __init__(self) -> None:
        self.spark = PlayedSpark()
        self.events: list[LaneEvent] = []
        self.granted: dict[str, float] = {}
        self.session_options: dict[str, Any] = {}
        self.paused_at: float | None = None  # where all clocks of the driver's machine stand still
        self.clock = HoldingClock(self._steady, self._steady)
        self.lease_until = math.inf  # of the driver, by its clock
        self.lanes = Lanes(
            SparkSettings(),
            7_000_000,
            self.events.append,
            self._grants,
            logged(),
            make_session=self._session,
            clock=self.clock,
        )
        self.lanes.start(1)
        until(lambda: self.spark.pools)

    def _session(self, _settings: SparkSettings, _outbox: Outbox, **options: Any) -> Session:
        self.session_options = options
        return cast(Session, self.spark)

    def _steady(self) -> float:
        return self.paused_at if self.paused_at is not None else clock_of_waits()

    def _grants(self) -> dict[str, float]:
        rest_s = max(self.lease_until - self.clock(), 0.0)
        return {link: min(lasts_s, rest_s) for link, lasts_s in self.granted.items()}

    @property
    def ticket(self) -> LaneTicket:
        server = self.lanes._server
        return LaneTicket(
            lane=0,
            address=server.address,
            memory_bytes=1 << 20,
            fingerprint=server.fingerprint,
            secret=self.lanes._secret,
        )

    def close(self) -> None:
        self.spark.over.set()
        self.lanes.close(SOON_S)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.setattr(control_line, "HEARTBEAT_S", 0.02)
    monkeypatch.setattr(lanes_module, "versions", lambda: dict(HELLO.versions))
    made = Run()
    yield made
    made.close()


class LaneEnd:
    """A lane's line that says what a lane says, counts its lease from `at`, and `wants` leases of these links."""

    def __init__(self, run: Run, *says: Report, wants: Sequence[str] = ()) -> None:
        self.heard: queue.Queue[Order] = queue.Queue()
        self.wants = tuple(wants)
        self.asked_at = 0.0
        self.counted: tuple[float, float] | None = None  # the driver's time, and for how long since then
        self.pulse = 0
        self.still = False
        ticket = run.ticket
        self.line = ControlLine(
            ticket.address,
            ticket.secret,
            ticket.lane,
            fingerprint=ticket.fingerprint,
            beat=self._beat,
            on_order=self.heard.put,
            on_end=lambda _: None,
        )
        self.line.start()
        for report in says:
            self.line.send(report)

    def renewed(self) -> Renew:
        """The next answer to a heartbeat."""
        order = self.heard.get(timeout=SOON_S)
        assert isinstance(order, Renew)
        return order

    def _beat(self) -> Heartbeat:
        self.pulse += not self.still
        self.asked_at = clock_of_suspended_time()
        return Heartbeat(at=self.asked_at, pulse=self.pulse, wants=self.wants, heard=self.counted)


# -- the end of the jobs


def test_jobs_that_do_not_end_with_the_run_are_cancelled(run: Run) -> None:
    run.lanes.close(0.05)
    assert run.spark.calls == ["cancel_all", "stop"]


def test_jobs_that_have_ended_are_not_cancelled(run: Run) -> None:
    run.lanes.ask_to_stop(1)
    run.spark.over.set()
    run.lanes.close(SOON_S)
    assert run.spark.calls == ["stop"]


def test_a_spark_that_is_lost_is_neither_waited_for_nor_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_jobs, "WATCH_S", 0.01)
    run = Run()
    run.spark.loss = CONTEXT_STOPPED
    until(lambda: run.events)
    assert run.events == [SparkLost(CONTEXT_STOPPED.message, CONTEXT_STOPPED.hint)]
    begun = time.monotonic()
    run.lanes.close(SOON_S)
    assert time.monotonic() - begun < 1.0
    assert run.spark.calls == ["stop"]
    run.spark.over.set()


def test_spark_is_told_how_much_memory_a_lane_may_use(run: Run) -> None:
    assert run.session_options == {"lane_memory_bytes": 7_000_000}


# -- leases


def test_a_heartbeat_is_answered_with_how_long_the_drivers_own_right_lasts(run: Run) -> None:
    run.granted = {"sf-to-nyc": 4.0, "sf-to-lax": 0.0}
    begun = clock_of_suspended_time()
    lane = LaneEnd(run, HELLO, wants=["sf-to-nyc", "sf-to-lax"])
    answer = lane.renewed()
    assert answer.leases == {"sf-to-nyc": 4.0}
    assert begun <= answer.asked_at <= clock_of_suspended_time()  # the lane's own word, given back
    lane.line.close()


def test_what_was_asked_while_the_driver_stood_still_is_not_granted_by_its_clock(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """Its own clock has missed it, and says that 5 s of its right are left; the lane has counted 10 s meanwhile."""
    run.granted = {"sf-to-nyc": 10.0}
    run.lease_until = run.clock() + 5.0
    lane = LaneEnd(run, HELLO, wants=["sf-to-nyc"])
    answer = lane.renewed()
    assert 4.0 < answer.leases["sf-to-nyc"] <= 5.0
    lane.counted = (answer.now, 10.0)
    until(lambda: lane.renewed().leases == {})
    assert caplog.text.count("the driver stood still for 10 s, by the clock of lane 0") == 1
    run.lease_until = run.clock() + 5.0  # elected still, as the next answer of the coordinator shows
    until(lambda: lane.renewed().leases)
    lane.line.close()


def test_what_is_noted_of_a_lease_never_ends_before_the_lanes_own_count(run: Run) -> None:
    run.granted = {"sf-to-nyc": 4.0}
    lane = LaneEnd(run, HELLO, wants=["sf-to-nyc"])
    for _ in range(20):
        answer = lane.renewed()
        lanes_own = answer.asked_at + answer.leases["sf-to-nyc"]
        assert run.lanes.leased_until(0, "sf-to-nyc") >= lanes_own
    assert run.lanes.leased_until(0, "sf-to-nyc") <= clock_of_waits() + 4.0
    lane.line.close()


def test_a_driver_that_lost_its_right_grants_nothing_more_and_forgets_nothing_granted(run: Run) -> None:
    run.granted = {"sf-to-nyc": 50.0}
    lane = LaneEnd(run, HELLO, wants=["sf-to-nyc"])
    lane.heard.get(timeout=SOON_S)
    noted = run.lanes.leased_until(0, "sf-to-nyc")
    run.granted = {"sf-to-nyc": 0.0}
    until(lambda: lane.renewed().leases == {})
    after = run.lanes.leased_until(0, "sf-to-nyc")
    assert noted <= after < noted + 5.0
    lane.line.close()


def test_a_lease_that_a_lane_does_not_want_is_neither_granted_nor_noted(run: Run) -> None:
    """Where there was none, a lane that is lost is replaced at once."""
    run.granted = {"sf-to-nyc": 4.0, "sf-to-lax": 5.0}
    lane = LaneEnd(run, HELLO, wants=["sf-to-lax"])
    for _ in range(3):
        assert lane.renewed().leases == {"sf-to-nyc": 0.0, "sf-to-lax": 5.0}
    assert run.lanes.leased_until(0, "sf-to-nyc") == float("-inf")
    assert run.lanes.leased_until(0, "sf-to-lax") > clock_of_waits() + 3.0
    lane.line.close()


def test_a_lease_that_is_wanted_no_more_is_noted_until_it_is_over(run: Run) -> None:
    run.granted = {"sf-to-nyc": 50.0}
    lane = LaneEnd(run, HELLO, wants=["sf-to-nyc"])
    assert lane.renewed().leases == {"sf-to-nyc": 50.0}
    lane.wants = ()
    until(lambda: lane.renewed().leases == {"sf-to-nyc": 0.0})
    noted = run.lanes.leased_until(0, "sf-to-nyc")
    for _ in range(3):
        lane.heard.get(timeout=SOON_S)
    assert run.lanes.leased_until(0, "sf-to-nyc") == noted > clock_of_waits() + 40.0
    lane.line.close()


def test_a_lease_of_a_link_that_the_driver_does_not_know_is_not_granted(run: Run) -> None:
    run.granted = {"sf-to-nyc": 4.0}
    lane = LaneEnd(run, HELLO, wants=["nowhere"])
    assert lane.renewed().leases == {"sf-to-nyc": 0.0}
    assert run.lanes.leased_until(0, "nowhere") <= clock_of_waits()
    lane.line.close()


def test_a_lane_that_never_asked_has_no_lease(run: Run) -> None:
    assert run.lanes.leased_until(0, "sf-to-nyc") == float("-inf")
    assert run.lanes.leased_until(9, "nowhere") == float("-inf")


def test_leases_are_renewed_while_the_controllers_loop_is_blocked(run: Run) -> None:
    """A slow admin call or a pause of the driver's loop must end no lease."""
    run.granted = {"sf-to-nyc": 6.0}
    lane = LaneEnd(run, HELLO)
    lane.heard.get(timeout=SOON_S)

    async def blocked() -> int:
        before = lane.heard.qsize()
        time.sleep(0.5)  # noqa: ASYNC251 - that it blocks is the point
        return lane.heard.qsize() - before

    assert asyncio.run(blocked()) > 5
    lane.line.close()


# -- what lanes say


def test_what_a_lane_says_is_told_as_events_in_order(run: Run) -> None:
    where, row = partition(), progress(partition(), 5)
    lane = LaneEnd(
        run,
        HELLO,
        Progress(rows=(row,)),
        Occurrences(occurrences=RACES),
        Revoked(partition=where, clean=False),
    )
    until(lambda: len(run.events) == 4)
    assert run.events == [
        LaneUp(0, 42, "there", None),
        LaneProgress(0, (row,)),
        LaneTold(0, RACES),
        LaneRevoked(0, where, clean=False),
    ]
    lane.line.close()


def test_a_lane_of_another_release_is_unfit_and_says_how(run: Run) -> None:
    lane = LaneEnd(run, replace(HELLO, versions={**HELLO.versions, "heliograph": "0.0.1"}))
    until(lambda: run.events)
    (up,) = run.events
    assert isinstance(up, LaneUp)
    assert up.unfit is not None
    assert "0.0.1" in up.unfit
    lane.line.close()


@pytest.mark.parametrize("clean", [True, False])
def test_a_lane_that_drained_ends_as_clean_as_it_says(run: Run, clean: bool) -> None:
    lane = LaneEnd(run, HELLO, Drained(clean=clean))
    until(lambda: run.events)
    lane.line.close()
    until(lambda: len(run.events) == 2)
    assert run.events[-1] == LaneGone(0, clean=clean, silent=False)


def test_a_lane_that_ends_without_a_word_is_not_clean_whatever_its_predecessor_said(run: Run) -> None:
    first = LaneEnd(run, HELLO, Drained(clean=True))
    until(lambda: run.events)
    second = LaneEnd(run, HELLO)
    until(lambda: len(run.events) == 2)
    second.line.close()
    until(lambda: len(run.events) == 3)
    assert run.events[-1] == LaneGone(0, clean=False)
    first.line.close()


def test_a_lane_that_is_abandoned_loses_its_line_and_its_job(run: Run) -> None:
    lane = LaneEnd(run, HELLO)
    until(lambda: run.events)
    run.lanes.abandon(0)
    until(lambda: LaneGone(0, clean=False, silent=False) in run.events)
    assert run.spark.cancelled == [job_group(0)]
    lane.line.close()


@pytest.mark.parametrize("how", ["no heartbeats", "no pulse"])
def test_a_lane_that_fell_silent_is_told_as_that_and_its_job_is_cancelled(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_server, "SILENCE_TICK_S", 0.02)
    monkeypatch.setattr(control_line, "HEARTBEAT_S", 60.0 if how == "no heartbeats" else 0.01)
    run = Run()
    lane = LaneEnd(run, HELLO)
    lane.still = True
    until(lambda: LaneGone(0, clean=False, silent=True) in run.events)
    assert run.spark.cancelled == [job_group(0)]
    lane.line.close()
    run.close()


# -- what lanes are ordered


def orders_to(lane: LaneEnd, count: int) -> list[Order]:
    """The next ones but for renewals."""
    found: list[Order] = []
    while len(found) < count:
        order = lane.heard.get(timeout=SOON_S)
        if not isinstance(order, Renew):
            found.append(order)
    return found


def test_a_lane_hears_of_links_before_partitions_and_gets_those_in_portions(run: Run) -> None:
    lane = LaneEnd(run, HELLO)
    until(lambda: run.events)
    specs = [spec_of(partition(number)) for number in range(ROWS_PER_FRAME + 1)]
    run.lanes.assign(0, [ENDS], specs, clear_in_s=2.5, pid=42)
    links, first, last = orders_to(lane, 3)
    assert links == OpenLinks(links=(ENDS,))
    assert first == Assign(specs=tuple(specs[:-1]), clear_in_s=2.5, pid=42)
    assert last == Assign(specs=(specs[-1],), clear_in_s=2.5, pid=42)
    lane.line.close()


def test_revocations_and_attempts_come_in_portions_too(run: Run) -> None:
    lane = LaneEnd(run, HELLO)
    until(lambda: run.events)
    keys = [partition(number) for number in range(ROWS_PER_FRAME + 1)]
    run.lanes.revoke(0, keys)
    run.lanes.grant_attempts(0, [(key, 3) for key in keys], pid=42)
    run.lanes.stop(0)
    assert orders_to(lane, 5) == [
        Revoke(partitions=tuple(keys[:-1])),
        Revoke(partitions=(keys[-1],)),
        GrantAttempts(attempts=tuple((key, 3) for key in keys[:-1]), pid=42),
        GrantAttempts(attempts=((keys[-1], 3),), pid=42),
        Stop(),
    ]
    lane.line.close()


# -- a real lane, without Spark


class RealLane:
    """A lane's task in a thread of its own, as in a Python worker."""

    def __init__(self, run: Run) -> None:
        self.loop = asyncio.new_event_loop()
        self.ended: list[str] = []
        self._thread = threading.Thread(target=self._live, args=[run.ticket], daemon=True)
        self._thread.start()

    def _live(self, ticket: LaneTicket) -> None:
        asyncio.set_event_loop(self.loop)
        self.ended.append(self.loop.run_until_complete(LaneTask(ticket).live()))
        self.loop.close()

    def join(self) -> None:
        self._thread.join(SOON_S)
        assert not self._thread.is_alive()


def test_a_lane_comes_up_fit_and_ends_clean_when_it_is_told_to(run: Run) -> None:
    lane = RealLane(run)
    until(lambda: run.events)
    (up,) = run.events
    assert isinstance(up, LaneUp)
    assert up.unfit is None
    run.lanes.stop(0)
    lane.join()
    until(lambda: len(run.events) > 1)
    assert run.events[-1] == LaneGone(0, clean=True, silent=False)
    assert lane.ended == ["stopped by the driver"]


def test_a_lane_lets_go_of_what_it_does_not_hold_at_once(run: Run) -> None:
    lane = RealLane(run)
    until(lambda: run.events)
    run.lanes.revoke(0, [partition(3)])
    until(lambda: LaneRevoked(0, partition(3), clean=True) in run.events)
    run.lanes.stop(0)
    lane.join()


def test_a_lane_whose_data_loop_is_stuck_is_told_as_silent(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its line has a thread of its own, and its heartbeats go on: the pulse in them does not."""
    lane = RealLane(run)
    until(lambda: run.events)
    monkeypatch.setattr(control_server, "SILENCE_TICK_S", 0.05)
    monkeypatch.setattr(lane_lines, "SILENT_TICKS", 4)
    stuck = threading.Event()
    lane.loop.call_soon_threadsafe(stuck.wait, SOON_S)
    until(lambda: LaneGone(0, clean=False, silent=True) in run.events)
    stuck.set()
    lane.join()


def test_a_lane_counts_for_a_driver_whose_machine_was_paused(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing runs there meanwhile, and its clocks go on afterwards where they were."""
    monkeypatch.setattr(clock, "JUMP_S", 0.3)
    lane = RealLane(run)
    until(lambda: run.events)
    time.sleep(0.1)  # it has heard the driver's time
    run.paused_at = begun = clock_of_waits()
    run.lanes._server._loop.call_soon_threadsafe(time.sleep, 1.0)
    until(lambda: run.clock() - begun > 0.5)  # by and by, as heartbeats that had queued up are read
    assert run.clock() - begun <= clock_of_waits() - begun
    run.lanes.stop(0)
    lane.join()


def test_a_lane_without_old_records_wants_no_lease(run: Run) -> None:
    run.granted = {"sf-to-nyc": 6.0}
    lane = RealLane(run)
    until(lambda: run.events)
    time.sleep(0.2)
    assert run.lanes.leased_until(0, "sf-to-nyc") == float("-inf")
    run.lanes.stop(0)
    lane.join()


def test_a_lane_asks_for_leases_of_the_links_that_have_old_records(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And renewals of links that it does not know, or does not know yet, harm nothing."""
    monkeypatch.setattr(Lane, "wants_exclusion", lambda _: ["sf-to-nyc"])
    run.granted = {"sf-to-nyc": 6.0, "unknown": 6.0}
    lane = RealLane(run)
    until(lambda: run.lanes.leased_until(0, "sf-to-nyc") > 0)
    time.sleep(0.2)
    assert lane.ended == []
    assert run.lanes.leased_until(0, "unknown") == float("-inf")
    run.lanes.stop(0)
    lane.join()
