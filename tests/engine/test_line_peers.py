"""Who comes to the driver's port: strangers cost bounded time and memory and are told, and lanes get in."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from heliograph.engine import control_server
from heliograph.engine.frames import framed, read
from heliograph.engine.line_certificate import new_certificate
from heliograph.engine.line_tls import HANDSHAKE_LIMIT_BYTES, SealedStream, lane_context
from heliograph.engine.orders import encode
from heliograph.engine.proof import PROOF_TIMEOUT_S, prove_as_driver, prove_as_lane
from tests.support.key_updates import renew_keys

from .line_ends import (
    HELLO,
    SECRET,
    SOON_S,
    Driver,
    LaneEnd,
    connected,
    numbered,
    proving,
    received_until_closed,
    sealed_stranger_at,
    stranger_at,
)

HTTP = b"GET / HTTP/1.1\r\n\r\n"
ALERT_BYTES = 7  # what TLS says to a peer that it does not understand
# A ClientHello that is as long as OpenSSL takes any, in the records of TLS that carry it.
LONG_HELLO_BYTES = 130_000
NARROW_TIMEOUT_S = 0.5
HELLO_HEAD = b"\x01" + LONG_HELLO_BYTES.to_bytes(3, "big") + b"\x03\x03"


def record(payload: bytes) -> bytes:
    return b"\x16\x03\x01" + len(payload).to_bytes(2, "big") + payload


@pytest.fixture
def driver() -> Iterator[Driver]:
    driver = Driver()
    yield driver
    driver.server.stop()


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    """A driver that 4 peers may prove themselves to at once, while 8 wait."""
    monkeypatch.setattr(control_server, "PROOF_TIMEOUT_S", NARROW_TIMEOUT_S)
    monkeypatch.setattr(control_server, "UNPROVEN_AT_ONCE", 4)
    monkeypatch.setattr(control_server, "WAITING_AT_ONCE", 8)
    driver = Driver()
    yield driver
    driver.server.stop()


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the driver's log says of its peers."""
    return [each.getMessage() for each in caplog.records if getattr(each, "event", "") == "control_line"]


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]


def lasted_s(stranger: socket.socket, part: bytes, *, every_s: float) -> float:
    """How long the driver let it send this over and over."""
    begun = time.monotonic()
    while time.monotonic() - begun < SOON_S:
        try:
            stranger.sendall(part)
        except OSError:
            return time.monotonic() - begun
        time.sleep(every_s)
    raise AssertionError("it was not cut off")


async def sealed(driver: Driver) -> SealedStream:
    """A lane's end of a line, before anything is said."""
    return SealedStream(*await asyncio.open_connection(*driver.address), lane_context(), server_side=False)


# -- strangers


@pytest.mark.parametrize(
    ("bytes_sent", "words"),
    [
        (b"", "the peer left during the TLS handshake"),
        (HTTP, "the peer does not speak TLS 1.3: HTTP_REQUEST"),
        (proving(challenge="c", lane=1, proof="0" * 64), "the peer does not speak TLS 1.3: "),
        (b"\xff" * 5000, "the peer does not speak TLS 1.3: "),
        (record(HELLO_HEAD), "the peer left during the TLS handshake"),
        (record(b"\x01\xff\xff\xff\x03\x03"), "the peer does not speak TLS 1.3: "),
    ],
)
def test_strangers_that_speak_no_tls_do_the_driver_no_harm_and_are_told(
    driver: Driver, bytes_sent: bytes, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    with stranger_at(driver) as stranger:
        stranger.sendall(bytes_sent)
        stranger.shutdown(socket.SHUT_WR)
        assert len(received_until_closed(stranger)) <= ALERT_BYTES
    connected(driver).line.close()
    (about,) = told(caplog)
    assert about.startswith(f"control line: {words}")
    assert errors(caplog) == []


@pytest.mark.parametrize(
    "bytes_sent", [b"", HTTP, b"\0\0\0\x02{}", b"\0\0\0\x04nope", proving(proof="é", challenge="")]
)
def test_strangers_that_speak_tls_do_the_driver_no_harm_and_are_told(
    driver: Driver, bytes_sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with sealed_stranger_at(driver) as stranger:
        stranger.sendall(bytes_sent)
    connected(driver).line.close()
    assert len(told(caplog)) == 1
    assert errors(caplog) == []


def test_silent_strangers_are_cut_off_in_bounded_time(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(control_server, "PROOF_TIMEOUT_S", 0.3)
    begun = time.monotonic()
    with stranger_at(driver) as plain, sealed_stranger_at(driver) as speaks_tls:
        assert received_until_closed(plain) == b""
        assert received_until_closed(speaks_tls)
    assert time.monotonic() - begun < 2.0
    assert told(caplog) == ["control line: a peer that proved nothing in time"] * 2


def test_a_handshake_without_end_is_cut_off_after_some_kilobytes(
    driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    with stranger_at(driver) as stranger:
        stranger.sendall(record(HELLO_HEAD))
        assert lasted_s(stranger, record(b"\0" * 1000), every_s=0.001) < PROOF_TIMEOUT_S / 2
    connected(driver).line.close()
    (about,) = told(caplog)
    assert about.startswith("control line: the TLS handshake has not ended after ")
    assert HANDSHAKE_LIMIT_BYTES < int(about.split()[-2]) < LONG_HELLO_BYTES


def test_a_peer_that_proves_nothing_gets_a_challenge_and_nothing_else(driver: Driver) -> None:
    lane = connected(driver)
    with sealed_stranger_at(driver) as stranger:
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
    with sealed_stranger_at(driver) as stranger:
        stranger.sendall(b"\xff\xff\xff\xff" + b"x" * 1000)
        received_until_closed(stranger)
    assert time.monotonic() - begun < PROOF_TIMEOUT_S / 2
    connected(driver).line.close()


def test_new_keys_without_end_for_a_peer_that_proves_nothing_end_it_soon(
    driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    begun = time.monotonic()
    with sealed_stranger_at(driver) as stranger, contextlib.suppress(OSError):
        while time.monotonic() - begun < SOON_S:
            renew_keys(stranger)
    assert time.monotonic() - begun < PROOF_TIMEOUT_S / 2
    connected(driver).line.close()
    assert told(caplog) == ["control line: the peer asks for new TLS keys without end"]


def test_a_peer_that_wants_new_keys_now_and_then_is_given_them(driver: Driver) -> None:
    with sealed_stranger_at(driver) as stranger:
        for _ in range(10):
            renew_keys(stranger)
        stranger.sendall(proving(challenge="c", lane=1, proof="0" * 64))
        assert b"challenge" in received_until_closed(stranger)


@pytest.mark.parametrize(
    ("arrive", "first", "then"),
    [
        (stranger_at, record(HELLO_HEAD), record(b"\0")),
        (stranger_at, b"\x16\x03\x01\x40\x00", b"\0"),
        (sealed_stranger_at, (1000).to_bytes(4, "big"), b"{"),
    ],
)
def test_a_peer_that_dribbles_is_cut_off_as_soon_as_one_that_is_silent(
    arrive: Callable[[Driver], socket.socket],
    first: bytes,
    then: bytes,
    driver: Driver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(control_server, "PROOF_TIMEOUT_S", 0.3)
    with arrive(driver) as stranger:
        stranger.sendall(first)
        assert lasted_s(stranger, then, every_s=0.02) < 2.0


# -- many at once


async def test_lanes_that_start_together_all_get_in(driver: Driver) -> None:
    """Three times as many as may prove themselves at once, all connected before the first of them does."""
    lanes = 3 * control_server.UNPROVEN_AT_ONCE + 8
    lines = await asyncio.gather(*(sealed(driver) for _ in range(lanes)))

    async def introduce(lane: int, line: SealedStream) -> None:
        await line.handshake()
        await prove_as_lane(line, SECRET, lane)
        line.write(framed(encode(HELLO)))

    await asyncio.gather(*(introduce(lane, line) for lane, line in enumerate(lines)))
    heard = {(await asyncio.to_thread(driver.heard.get, timeout=SOON_S))[0] for _ in range(lanes)}
    assert heard == set(range(lanes))
    for line in lines:
        line.close()


def strangers_at(driver: Driver, count: int) -> list[socket.socket]:
    return [stranger_at(driver) for _ in range(count)]


def test_a_lane_waits_its_turn_behind_peers_that_prove_nothing(
    narrow: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    strangers = strangers_at(narrow, 4)
    connected(narrow).line.close()
    assert told(caplog) == ["control line: a peer that proved nothing in time"] * 4
    for stranger in strangers:
        stranger.close()


def test_no_more_than_a_few_wait_their_turn(narrow: Driver, caplog: pytest.LogCaptureFixture) -> None:
    for stranger in strangers_at(narrow, 20):
        received_until_closed(stranger)
        stranger.close()
    assert caplog.text.count("a peer that proved nothing in time") == 4 + 8
    assert caplog.text.count("a peer was turned away: 8 others wait to prove themselves") == 8
    connected(narrow).line.close()


def test_nobody_waits_for_ever(
    narrow: Driver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(control_server, "TURN_LIMIT_S", 0.2)
    strangers = strangers_at(narrow, 6)
    begun = time.monotonic()
    for stranger in strangers[4:]:
        assert received_until_closed(stranger) == b""
    assert time.monotonic() - begun < NARROW_TIMEOUT_S
    assert caplog.text.count("a peer was turned away: its turn did not come in") == 2
    for stranger in strangers:
        stranger.close()


def test_nothing_is_read_of_a_peer_before_its_turn(narrow: Driver) -> None:
    """512 may wait: what they send must not fill memory."""
    strangers = strangers_at(narrow, 5)
    strangers[4].setblocking(False)
    assert strangers[4].send(b"x" * 100_000) > 10_000
    time.sleep(NARROW_TIMEOUT_S / 3)
    readers = [each for each in gc.get_objects() if isinstance(each, asyncio.StreamReader)]
    assert len(readers) >= 5
    assert not any(b"xxx" in reader._buffer for reader in readers)  # type: ignore[attr-defined]
    for stranger in strangers:
        stranger.close()


# -- peers that have proven themselves, and say what nobody understands


@pytest.mark.parametrize(
    "body", [b'{"type":"of a later release"}', b'{"type":"drained"}', b"{}", b"nonsense"]
)
async def test_a_lane_that_speaks_another_language_is_closed_told_and_gone(
    driver: Driver, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    line = await sealed(driver)
    await line.handshake()
    await prove_as_lane(line, SECRET, 1)
    line.write(framed(body))
    async with asyncio.timeout(SOON_S):
        assert await read(line) is None
    line.close()
    assert driver.gone.get(timeout=SOON_S) == 1
    assert driver.heard.empty()
    (about,) = told(caplog)
    assert about.startswith("control line: a ")


async def test_a_driver_that_speaks_another_language_ends_the_lanes_line() -> None:
    certificate = new_certificate()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = SealedStream(reader, writer, certificate.context, server_side=True)
        await line.handshake()
        await prove_as_driver(line, SECRET)
        line.write(framed(b'{"type":"of a later release"}'))
        line.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    lane = LaneEnd(server.sockets[0].getsockname(), certificate.fingerprint)
    end = await asyncio.to_thread(lane.ends.get, True, SOON_S)
    assert end == "the control line failed: a control message of an unknown type: 'of a later release'"
    lane.line.close()
    server.close()
