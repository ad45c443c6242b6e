"""A real ControlServer and real ControlLines over loopback: what is sent arrives, and every end is noticed once."""

from __future__ import annotations

import asyncio
import errno
import queue
import socket
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from heliograph.engine import control_line, control_server, lane_lines
from heliograph.engine.control_line import ControlLine
from heliograph.engine.control_server import ControlServer
from heliograph.engine.line_tls import SealedStream
from heliograph.engine.orders import Drained, Heartbeat, LogLine, Order, Report, Stop
from heliograph.model.errors import EngineLost
from heliograph.model.occurrence_log import logged

from .line_ends import HELLO, PROGRESS, SECRET, SOON_S, Driver, LaneEnd, Pulse, connected, numbered


@pytest.fixture
def driver() -> Iterator[Driver]:
    driver = Driver()
    yield driver
    driver.server.stop()


def test_what_either_side_sends_the_other_hears_in_order(driver: Driver) -> None:
    lane = connected(driver)
    for n in range(100):
        lane.line.send(LogLine(level="WARNING", logger="here", words=str(n)))
        driver.server.send(1, numbered(n))
    up = [driver.heard.get(timeout=SOON_S) for _ in range(100)]
    down = [lane.heard.get(timeout=SOON_S) for _ in range(100)]
    assert up == [(1, LogLine(level="WARNING", logger="here", words=str(n))) for n in range(100)]
    assert down == [numbered(n) for n in range(100)]
    lane.line.close()


@pytest.mark.parametrize("pause_s", [0.0, 0.001, 0.005])
def test_what_a_lane_says_before_the_line_stands_is_not_lost(driver: Driver, pause_s: float) -> None:
    """A lane introduces itself right after it starts: the driver gives it work only then."""
    lane = LaneEnd(driver.address, driver.server.fingerprint)
    time.sleep(pause_s)
    lane.line.send(HELLO)
    try:
        assert driver.heard.get(timeout=SOON_S) == (1, HELLO)
    except queue.Empty:
        pytest.fail(f"never heard; the line's end: {list(lane.ends.queue)}")
    finally:
        lane.line.close()


def test_what_was_sent_before_closing_still_arrives(driver: Driver) -> None:
    lane = connected(driver)
    lane.line.send(LogLine(level="WARNING", logger="here", words="x" * 200_000))
    lane.line.send(Drained(clean=True))
    lane.line.close()
    assert isinstance(driver.heard.get(timeout=SOON_S)[1], LogLine)
    assert driver.heard.get(timeout=SOON_S)[1] == Drained(clean=True)
    assert driver.gone.get(timeout=SOON_S) == 1
    assert lane.ends.get(timeout=SOON_S) == "closed"


def test_a_line_can_be_closed_as_soon_as_it_was_started(driver: Driver) -> None:
    for _ in range(20):
        lane = LaneEnd(driver.address, driver.server.fingerprint)
        begun = time.monotonic()
        lane.line.close()
        assert time.monotonic() - begun < 2.0
        assert lane.ends.get(timeout=SOON_S)


def test_the_drivers_end_is_noticed_once_by_every_lane(driver: Driver) -> None:
    lanes = [connected(driver, lane) for lane in range(3)]
    driver.server.stop()
    for lane in lanes:
        assert "driver closed" in lane.ends.get(timeout=SOON_S)
        lane.line.close()
        assert lane.ends.empty()


def test_a_lane_that_is_gone_can_be_spoken_to_in_vain(driver: Driver) -> None:
    lane = connected(driver)
    lane.line.close()
    assert driver.gone.get(timeout=SOON_S) == 1
    driver.server.send(1, Stop())
    driver.server.send(99, Stop())
    lane.line.send(PROGRESS)
    connected(driver, 2).line.close()


def test_a_driver_that_has_stopped_can_be_told_to_send_in_vain(driver: Driver) -> None:
    driver.server.stop()
    driver.server.send(1, Stop())
    driver.server.stop()


def test_a_newer_line_of_a_lane_replaces_the_older_and_the_lane_is_not_gone(driver: Driver) -> None:
    older = connected(driver)
    newer = connected(driver)
    assert "driver closed" in older.ends.get(timeout=SOON_S)
    driver.server.send(1, numbered(7))
    assert newer.heard.get(timeout=SOON_S) == numbered(7)
    assert driver.gone.empty()
    newer.line.close()
    assert driver.gone.get(timeout=SOON_S) == 1


def test_a_lane_without_the_runs_secret_is_turned_away(driver: Driver) -> None:
    stranger = LaneEnd(driver.address, driver.server.fingerprint, secret=b"x" * 32)
    assert "control line failed" in stranger.ends.get(timeout=SOON_S)
    assert driver.heard.empty()
    assert driver.gone.empty()
    connected(driver).line.close()


def test_a_driver_that_falls_silent_ends_the_line(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_line, "SILENCE_LIMIT_S", 0.3)
    lane = LaneEnd(driver.address, driver.server.fingerprint)
    assert "no word from the driver" in lane.ends.get(timeout=SOON_S)
    lane.line.close()


def test_a_lane_sends_heartbeats_by_itself() -> None:
    heard: queue.Queue[Report] = queue.Queue()
    server = ControlServer(
        SECRET, lambda _lane, report: heard.put(report), lambda _lane: None, outbox=logged()
    )
    server.start("127.0.0.1")
    lane = LaneEnd(server.address, server.fingerprint)
    assert heard.get(timeout=SOON_S) == Heartbeat(at=0.5, pulse=1)
    lane.line.close()
    server.stop()


def test_a_lane_that_is_frozen_is_gone_and_told_apart_from_one_that_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(control_server, "SILENCE_TICK_S", 0.05)
    monkeypatch.setattr(lane_lines, "SILENT_TICKS", 4)
    monkeypatch.setattr(control_line, "HEARTBEAT_S", 0.02)
    ends: queue.Queue[tuple[str, int]] = queue.Queue()
    server = ControlServer(
        SECRET,
        lambda _lane, _report: None,
        lambda lane: ends.put(("gone", lane)),
        on_silent=lambda lane: ends.put(("silent", lane)),
        outbox=logged(),
    )
    server.start("127.0.0.1")
    lively = LaneEnd(server.address, server.fingerprint, lane=1)
    time.sleep(0.5)
    assert ends.empty()  # its heartbeats are enough
    lively.line.close()
    assert ends.get(timeout=SOON_S) == ("gone", 1)
    monkeypatch.setattr(control_line, "HEARTBEAT_S", 60.0)
    frozen = LaneEnd(server.address, server.fingerprint, lane=2)
    assert ends.get(timeout=SOON_S) == ("silent", 2)
    assert ends.get(timeout=SOON_S) == ("gone", 2)
    assert frozen.ends.get(timeout=SOON_S)
    monkeypatch.setattr(control_line, "HEARTBEAT_S", 0.02)
    back = LaneEnd(server.address, server.fingerprint, lane=2)
    time.sleep(0.5)
    assert ends.empty()  # the silence of its predecessor is forgotten
    back.line.close()
    server.stop()


def test_a_lane_whose_data_loop_stands_still_is_ended_though_its_line_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(control_server, "SILENCE_TICK_S", 0.05)
    monkeypatch.setattr(lane_lines, "SILENT_TICKS", 4)
    monkeypatch.setattr(control_line, "HEARTBEAT_S", 0.02)
    ends: queue.Queue[tuple[str, int]] = queue.Queue()
    server = ControlServer(
        SECRET,
        lambda _lane, _report: None,
        lambda lane: ends.put(("gone", lane)),
        on_silent=lambda lane: ends.put(("silent", lane)),
        outbox=logged(),
    )
    server.start("127.0.0.1")
    lane = LaneEnd(server.address, server.fingerprint, lane=2)
    time.sleep(0.5)
    assert ends.empty()
    lane.pulse.still = True
    assert ends.get(timeout=SOON_S) == ("silent", 2)
    assert ends.get(timeout=SOON_S) == ("gone", 2)
    lane.line.close()
    server.stop()


def cut_network(loop: asyncio.AbstractEventLoop, line: SealedStream | None) -> None:
    """What this end of a line meets when packets have been lost for long."""
    assert line is not None
    fail = getattr(line._transport, "_fatal_error")  # noqa: B009 - of the transport's own: nothing public fails it
    loop.call_soon_threadsafe(fail, OSError(errno.EHOSTUNREACH, "no route to host"))


def test_a_lane_that_is_cut_off_is_told_as_silent_for_it_may_go_on(caplog: pytest.LogCaptureFixture) -> None:
    ends: queue.Queue[tuple[str, int]] = queue.Queue()
    server = ControlServer(
        SECRET,
        lambda _lane, _report: ends.put(("up", 2)) if ends.empty() else None,
        lambda lane: ends.put(("gone", lane)),
        on_silent=lambda lane: ends.put(("silent", lane)),
        outbox=logged(),
    )
    server.start("127.0.0.1")
    lane = LaneEnd(server.address, server.fingerprint, lane=2)
    assert ends.get(timeout=SOON_S) == ("up", 2)
    cut_network(server._loop, server._lines.of(2))
    assert ends.get(timeout=SOON_S) == ("silent", 2)
    assert ends.get(timeout=SOON_S) == ("gone", 2)
    assert "lane 2: the network was cut" in caplog.text
    lane.line.close()
    server.stop()


def test_a_driver_that_is_cut_off_ends_the_lanes_line_with_the_reason(driver: Driver) -> None:
    lane = connected(driver)
    cut_network(lane.line._loop, lane.line._line)
    assert "the network was cut" in lane.ends.get(timeout=SOON_S)
    lane.line.close()


class Unheard:
    """The writer's side of a peer that is cut off before it has proven anything."""

    def __init__(self) -> None:
        self.closed = False
        self.transport = SimpleNamespace(pause_reading=lambda: None, resume_reading=lambda: None)

    def close(self) -> None:
        self.closed = True


async def test_a_peer_that_is_cut_off_before_it_has_proven_anything_is_no_lane(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[object] = []
    server = ControlServer(
        SECRET, lambda *said: told.append(said), told.append, on_silent=told.append, outbox=logged()
    )
    peer = Unheard()

    reader = asyncio.StreamReader()
    reader.set_exception(OSError(errno.ETIMEDOUT, "timed out"))
    await server._accept(reader, cast(asyncio.StreamWriter, peer))

    server._loop.close()
    assert told == []
    assert peer.closed
    assert "control line: the network was cut" in caplog.text


def test_any_other_word_of_a_lane_is_a_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_server, "SILENCE_TICK_S", 0.05)
    monkeypatch.setattr(lane_lines, "SILENT_TICKS", 4)
    gone: queue.Queue[int] = queue.Queue()
    server = ControlServer(SECRET, lambda _lane, _report: None, gone.put, outbox=logged())
    server.start("127.0.0.1")
    lane = LaneEnd(server.address, server.fingerprint)
    lane.pulse.still = True
    for _ in range(25):
        lane.line.send(PROGRESS)
        time.sleep(0.02)
    assert gone.empty()
    lane.line.close()
    server.stop()


def test_a_line_that_is_ended_by_the_driver_is_gone_and_its_lane_learns_of_it(driver: Driver) -> None:
    lane = connected(driver)
    driver.server.end_line(1)
    driver.server.end_line(99)
    assert driver.gone.get(timeout=SOON_S) == 1
    assert lane.ends.get(timeout=SOON_S)
    lane.line.close()


def test_a_line_that_is_closed_before_its_loop_runs_ends(driver: Driver) -> None:
    ends: queue.Queue[str] = queue.Queue()
    line = ControlLine(
        driver.address,
        SECRET,
        1,
        fingerprint=driver.server.fingerprint,
        beat=Pulse().beat,
        on_order=lambda _: None,
        on_end=ends.put,
    )
    line._loop.call_soon_threadsafe(line._closing.set)  # what close() does, sure to come first
    line.start()
    assert ends.get(timeout=SOON_S) == "closed"
    line.close()


def test_the_end_is_told_whatever_ended_the_line(driver: Driver) -> None:
    ends: queue.Queue[str] = queue.Queue()

    def stumble(_: Order) -> None:
        raise ZeroDivisionError("a bug")

    line = ControlLine(
        driver.address,
        SECRET,
        1,
        fingerprint=driver.server.fingerprint,
        beat=Pulse().beat,
        on_order=stumble,
        on_end=ends.put,
    )
    line.start()
    deadline = time.monotonic() + SOON_S
    while ends.empty() and time.monotonic() < deadline:
        driver.server.send(1, numbered(0))
        time.sleep(0.02)
    assert "ZeroDivisionError: a bug" in ends.get(timeout=SOON_S)
    line.close()


def test_no_driver_at_the_address_ends_the_line_with_the_reason() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        lane = LaneEnd(unused.getsockname(), b"")
        assert "control line failed" in lane.ends.get(timeout=SOON_S)
        lane.line.send(PROGRESS)
        lane.line.close()


def test_an_address_that_is_not_ours_is_an_engine_error_with_a_hint() -> None:
    server = ControlServer(SECRET, lambda _lane, _report: None, lambda _lane: None, outbox=logged())
    with pytest.raises(EngineLost) as caught:
        server.start("203.0.113.1")
    assert "203.0.113.1" in caught.value.message
    assert caught.value.hint


def test_nothing_runs_on_after_both_ends_are_closed(driver: Driver) -> None:
    lane = connected(driver)
    lane.line.close()
    driver.server.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "control-line"]


async def test_a_driver_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_line, "PROOF_TIMEOUT_S", 0.1)
    monkeypatch.setattr(control_line, "TURN_LIMIT_S", 0.1)
    accepted: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _r, w: accepted.append(w), "127.0.0.1", 0)
    lane = LaneEnd(server.sockets[0].getsockname(), b"")
    assert "control line failed" in await asyncio.to_thread(lane.ends.get, True, SOON_S)
    for writer in accepted:
        writer.close()
    server.close()
