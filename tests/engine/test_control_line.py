"""A real ControlServer and real ControlLines over loopback: what is sent arrives, and every end is noticed once."""

from __future__ import annotations

import asyncio
import errno
import json
import queue
import socket
import threading
import time
from collections.abc import Iterator
from typing import cast

import pytest

from heliograph.engine import control_line, control_server, lane_lines, proof
from heliograph.engine.control_line import ControlLine
from heliograph.engine.control_server import ControlServer
from heliograph.engine.frames import framed
from heliograph.engine.orders import (
    Drained,
    Heartbeat,
    Hello,
    LogLine,
    Order,
    Progress,
    Renew,
    Report,
    Stop,
    encode,
)
from heliograph.model.errors import EngineLost
from heliograph.model.occurrence_log import logged

SECRET = b"s" * 32
SOON_S = 5.0
HELLO = Hello(pid=1, host="there", versions={})
PROGRESS = Progress(rows=())


def numbered(n: int) -> Renew:
    """An order that can be told from others of its kind."""
    return Renew(asked_at=float(n), leases={}, now=0.0)


def proving(**message: object) -> bytes:
    """A word of the proof."""
    return framed(json.dumps(message).encode())


class Driver:
    """A server and all that it heard, without the heartbeats."""

    def __init__(self) -> None:
        self.heard: queue.Queue[tuple[int, Report]] = queue.Queue()
        self.gone: queue.Queue[int] = queue.Queue()
        self.server = ControlServer(SECRET, self._hear, self.gone.put, outbox=logged())
        self.address = self.server.start("127.0.0.1")

    def _hear(self, lane: int, report: Report) -> None:
        if not isinstance(report, Heartbeat):
            self.heard.put((lane, report))


class Pulse:
    """Heartbeats of a data loop that turns with every one of them, unless it is `still`."""

    def __init__(self) -> None:
        self.count = 0
        self.still = False

    def beat(self) -> Heartbeat:
        self.count += not self.still
        return Heartbeat(at=0.5, pulse=self.count)


class LaneEnd:
    """A lane's line and all that it heard."""

    def __init__(self, address: tuple[str, int], lane: int = 1, secret: bytes = SECRET) -> None:
        self.heard: queue.Queue[Order] = queue.Queue()
        self.ends: queue.Queue[str] = queue.Queue()
        self.pulse = Pulse()
        self.line = ControlLine(
            address, secret, lane, beat=self.pulse.beat, on_order=self.heard.put, on_end=self.ends.put
        )
        self.line.start()


@pytest.fixture
def driver() -> Iterator[Driver]:
    driver = Driver()
    yield driver
    driver.server.stop()


def connected(driver: Driver, lane: int = 1) -> LaneEnd:
    """A lane that the driver has heard of: it repeats itself until it is heard."""
    end = LaneEnd(driver.address, lane)
    deadline = time.monotonic() + SOON_S
    while time.monotonic() < deadline:
        driver.server.send(lane, numbered(0))
        try:
            end.heard.get(timeout=0.02)
        except queue.Empty:
            continue
        time.sleep(0.05)
        while not end.heard.empty():
            end.heard.get()
        return end
    raise AssertionError("the lane did not connect")


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
    lane = LaneEnd(driver.address)
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
        lane = LaneEnd(driver.address)
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
    stranger = LaneEnd(driver.address, lane=1, secret=b"x" * 32)
    assert "control line failed" in stranger.ends.get(timeout=SOON_S)
    assert driver.heard.empty()
    assert driver.gone.empty()
    connected(driver).line.close()


@pytest.mark.parametrize(
    "bytes_sent",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\x02{}",
        b"\0\0\0\x04nope",
        proving(proof="é", challenge=""),
    ],
)
def test_strangers_do_the_driver_no_harm(
    driver: Driver, bytes_sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_connection(driver.address, timeout=SOON_S) as stranger:
        stranger.sendall(bytes_sent)
        stranger.shutdown(socket.SHUT_WR)
        while stranger.recv(4096):
            pass
    lane = connected(driver)
    lane.line.close()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_silent_stranger_is_cut_off_in_bounded_time(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "PROOF_TIMEOUT_S", 0.2)
    with socket.create_connection(driver.address, timeout=SOON_S) as stranger:
        assert stranger.recv(4096)
        assert stranger.recv(4096) == b""


def test_a_driver_that_falls_silent_ends_the_line(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_line, "SILENCE_LIMIT_S", 0.3)
    lane = LaneEnd(driver.address)
    assert "no word from the driver" in lane.ends.get(timeout=SOON_S)
    lane.line.close()


def test_a_lane_sends_heartbeats_by_itself() -> None:
    heard: queue.Queue[Report] = queue.Queue()
    server = ControlServer(
        SECRET, lambda _lane, report: heard.put(report), lambda _lane: None, outbox=logged()
    )
    lane = LaneEnd(server.start("127.0.0.1"))
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
    address = server.start("127.0.0.1")
    lively = LaneEnd(address, lane=1)
    time.sleep(0.5)
    assert ends.empty()  # its heartbeats are enough
    lively.line.close()
    assert ends.get(timeout=SOON_S) == ("gone", 1)
    monkeypatch.setattr(control_line, "HEARTBEAT_S", 60.0)
    frozen = LaneEnd(address, lane=2)
    assert ends.get(timeout=SOON_S) == ("silent", 2)
    assert ends.get(timeout=SOON_S) == ("gone", 2)
    assert frozen.ends.get(timeout=SOON_S)
    monkeypatch.setattr(control_line, "HEARTBEAT_S", 0.02)
    back = LaneEnd(address, lane=2)
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
    lane = LaneEnd(server.start("127.0.0.1"), lane=2)
    time.sleep(0.5)
    assert ends.empty()
    lane.pulse.still = True
    assert ends.get(timeout=SOON_S) == ("silent", 2)
    assert ends.get(timeout=SOON_S) == ("gone", 2)
    lane.line.close()
    server.stop()


def cut_network(loop: asyncio.AbstractEventLoop, writer: asyncio.StreamWriter) -> None:
    """What this end of a line meets when packets have been lost for long."""
    fail = getattr(writer.transport, "_fatal_error")  # noqa: B009 - of the transport's own: nothing public fails it
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
    lane = LaneEnd(server.start("127.0.0.1"), lane=2)
    assert ends.get(timeout=SOON_S) == ("up", 2)
    writer = server._lines.of(2)
    assert writer is not None
    cut_network(server._loop, writer)
    assert ends.get(timeout=SOON_S) == ("silent", 2)
    assert ends.get(timeout=SOON_S) == ("gone", 2)
    assert "lane 2: the network was cut" in caplog.text
    lane.line.close()
    server.stop()


def test_a_driver_that_is_cut_off_ends_the_lanes_line_with_the_reason(driver: Driver) -> None:
    lane = connected(driver)
    assert lane.line._writer is not None
    cut_network(lane.line._loop, lane.line._writer)
    assert "the network was cut" in lane.ends.get(timeout=SOON_S)
    lane.line.close()


class Unheard:
    """The writer's side of a peer that is cut off before it has proven anything."""

    def __init__(self) -> None:
        self.closed = False

    def write(self, _data: bytes) -> None:
        pass

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
    lane = LaneEnd(server.start("127.0.0.1"))
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


# -- peers that have proven themselves, and say what nobody understands


async def proven(driver: Driver) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(*driver.address)
    await proof.prove_as_lane(reader, writer, SECRET, 1)
    return reader, writer


@pytest.mark.parametrize(
    "body", [b'{"type":"of a later release"}', b'{"type":"drained"}', b"{}", b"nonsense"]
)
async def test_a_lane_that_speaks_another_language_is_closed_told_and_gone(
    driver: Driver, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    reader, writer = await proven(driver)
    writer.write(framed(body))
    async with asyncio.timeout(SOON_S):
        assert await reader.read() == b""
    writer.close()
    assert driver.gone.get(timeout=SOON_S) == 1
    assert driver.heard.empty()
    (told,) = [record for record in caplog.records if getattr(record, "event", "") == "control_line"]
    assert "control line: a " in told.getMessage()


async def test_a_driver_that_speaks_another_language_ends_the_lanes_line() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await proof.prove_as_driver(reader, writer, SECRET)
        writer.write(framed(b'{"type":"of a later release"}'))
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    lane = LaneEnd(server.sockets[0].getsockname())
    end = await asyncio.to_thread(lane.ends.get, True, SOON_S)
    assert end == "the control line failed: a control message of an unknown type: 'of a later release'"
    lane.line.close()
    server.close()


# -- peers that prove nothing


def received_until_closed(stranger: socket.socket) -> bytes:
    stranger.settimeout(SOON_S)
    received = b""
    try:
        while part := stranger.recv(4096):
            received += part
    except ConnectionResetError:
        pass  # closed with bytes of ours unread
    return received


def dribble(stranger: socket.socket, *, for_s: float) -> None:
    begun = time.monotonic()
    while time.monotonic() - begun < for_s:
        stranger.sendall(b"{")
        time.sleep(0.02)


def test_a_peer_that_proves_nothing_gets_a_challenge_and_nothing_else(driver: Driver) -> None:
    lane = connected(driver)
    with socket.create_connection(driver.address, timeout=SOON_S) as stranger:
        for _ in range(50):
            driver.server.send(1, numbered(7))
        stranger.sendall(proving(challenge="c", lane=1, proof="0" * 64))
        got = received_until_closed(stranger)
    size = int.from_bytes(got[:4], "big")
    assert size == len(got) - 4 < 100
    assert set(json.loads(got[4:])) == {"challenge"}
    assert driver.gone.empty()  # nor does it replace the lane it says to be
    lane.line.close()


def test_a_huge_length_of_a_peer_that_proves_nothing_ends_it_at_once(driver: Driver) -> None:
    begun = time.monotonic()
    with socket.create_connection(driver.address, timeout=SOON_S) as stranger:
        stranger.sendall(b"\xff\xff\xff\xff" + b"x" * 1000)
        received_until_closed(stranger)
    assert time.monotonic() - begun < proof.PROOF_TIMEOUT_S / 2
    connected(driver).line.close()


def test_a_peer_that_dribbles_is_cut_off_as_soon_as_one_that_is_silent(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "PROOF_TIMEOUT_S", 0.3)
    begun = time.monotonic()
    with socket.create_connection(driver.address, timeout=SOON_S) as stranger:
        stranger.sendall((1000).to_bytes(4, "big"))
        with pytest.raises(OSError, match=r"[Bb]roken pipe|reset"):
            dribble(stranger, for_s=SOON_S)
    assert time.monotonic() - begun < 2.0


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    """A driver that 4 peers may prove themselves to at once, while 8 wait."""
    monkeypatch.setattr(proof, "PROOF_TIMEOUT_S", 0.5)
    monkeypatch.setattr(control_server, "UNPROVEN_AT_ONCE", 4)
    monkeypatch.setattr(control_server, "WAITING_AT_ONCE", 8)
    driver = Driver()
    yield driver
    driver.server.stop()


def strangers_at(driver: Driver, count: int) -> list[socket.socket]:
    return [socket.create_connection(driver.address, timeout=SOON_S) for _ in range(count)]


async def test_lanes_that_start_together_all_get_in(driver: Driver) -> None:
    """Three times as many as may prove themselves at once, all connected before the first of them does."""
    lanes = 3 * control_server.UNPROVEN_AT_ONCE + 8
    opened = await asyncio.gather(*(asyncio.open_connection(*driver.address) for _ in range(lanes)))

    async def introduce(lane: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await proof.prove_as_lane(reader, writer, SECRET, lane)
        writer.write(framed(encode(HELLO)))

    await asyncio.gather(*(introduce(lane, *ends) for lane, ends in enumerate(opened)))
    heard = {(await asyncio.to_thread(driver.heard.get, timeout=SOON_S))[0] for _ in range(lanes)}
    assert heard == set(range(lanes))
    for _, writer in opened:
        writer.close()


def test_a_lane_waits_its_turn_behind_peers_that_prove_nothing(narrow: Driver) -> None:
    strangers = strangers_at(narrow, 4)
    connected(narrow).line.close()
    assert all(received_until_closed(stranger) for stranger in strangers)
    for stranger in strangers:
        stranger.close()


def test_no_more_than_a_few_wait_their_turn(narrow: Driver, caplog: pytest.LogCaptureFixture) -> None:
    strangers = strangers_at(narrow, 20)
    challenged = [received_until_closed(stranger) for stranger in strangers]
    for stranger in strangers:
        stranger.close()
    assert sum(map(bool, challenged)) == 4 + 8
    assert caplog.text.count("a peer was turned away: 8 others wait to prove themselves") == 8
    connected(narrow).line.close()


def test_nobody_waits_for_ever(narrow: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_server, "TURN_LIMIT_S", 0.2)
    strangers = strangers_at(narrow, 6)
    begun = time.monotonic()
    assert [bool(received_until_closed(stranger)) for stranger in strangers[4:]] == [False, False]
    assert time.monotonic() - begun < proof.PROOF_TIMEOUT_S
    for stranger in strangers:
        stranger.close()


def test_a_line_that_is_closed_before_its_loop_runs_ends(driver: Driver) -> None:
    ends: queue.Queue[str] = queue.Queue()
    line = ControlLine(driver.address, SECRET, 1, beat=Pulse().beat, on_order=lambda _: None, on_end=ends.put)
    line._loop.call_soon_threadsafe(line._closing.set)  # what close() does, sure to come first
    line.start()
    assert ends.get(timeout=SOON_S) == "closed"
    line.close()


def test_the_end_is_told_whatever_ended_the_line(driver: Driver) -> None:
    ends: queue.Queue[str] = queue.Queue()

    def stumble(_: Order) -> None:
        raise ZeroDivisionError("a bug")

    line = ControlLine(driver.address, SECRET, 1, beat=Pulse().beat, on_order=stumble, on_end=ends.put)
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
        lane = LaneEnd(unused.getsockname())
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
    monkeypatch.setattr(proof, "PROOF_TIMEOUT_S", 0.1)
    monkeypatch.setattr(proof, "TURN_LIMIT_S", 0.1)
    accepted: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _r, w: accepted.append(w), "127.0.0.1", 0)
    lane = LaneEnd(server.sockets[0].getsockname())
    assert "control line failed" in await asyncio.to_thread(lane.ends.get, True, SOON_S)
    for writer in accepted:
        writer.close()
    server.close()
