"""Both ends of real control lines over loopback, strangers at the driver's port, and somebody on the way between."""

from __future__ import annotations

import json
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable

from heliograph.engine.control_line import ControlLine
from heliograph.engine.control_server import ControlServer
from heliograph.engine.frames import framed
from heliograph.engine.line_tls import lane_context
from heliograph.engine.orders import Heartbeat, Hello, Order, Progress, Renew, Report
from heliograph.model.occurrence_log import logged

SECRET = b"the secret of this run, 32 bytes"
SOON_S = 5.0
HELLO = Hello(pid=1, host="there", versions={})
PROGRESS = Progress(rows=())

Address = tuple[str, int]


def numbered(n: int) -> Renew:
    """An order that can be told from others of its kind."""
    return Renew(asked_at=float(n), leases={}, now=0.0)


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

    def __init__(self, address: Address, fingerprint: bytes, lane: int = 1, secret: bytes = SECRET) -> None:
        self.heard: queue.Queue[Order] = queue.Queue()
        self.ends: queue.Queue[str] = queue.Queue()
        self.pulse = Pulse()
        self.line = ControlLine(
            address,
            secret,
            lane,
            fingerprint=fingerprint,
            beat=self.pulse.beat,
            on_order=self.heard.put,
            on_end=self.ends.put,
        )
        self.line.start()


def connected(driver: Driver, lane: int = 1, *, address: Address | None = None) -> LaneEnd:
    """A lane that the driver has heard of: it repeats itself until it is heard. `address`: where the lane looks for it,
    if not at its own."""
    end = LaneEnd(address or driver.address, driver.server.fingerprint, lane)
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


# -- strangers


def stranger_at(driver: Driver) -> socket.socket:
    return socket.create_connection(driver.address, timeout=SOON_S)


def sealed_stranger_at(driver: Driver) -> ssl.SSLSocket:
    """One that speaks TLS and looks at no certificate."""
    return lane_context().wrap_socket(stranger_at(driver), suppress_ragged_eofs=True)


def proving(**message: object) -> bytes:
    """A word of the proof."""
    return framed(json.dumps(message).encode())


def received_until_closed(stranger: socket.socket) -> bytes:
    stranger.settimeout(SOON_S)
    received = b""
    try:
        while part := stranger.recv(4096):
            received += part
    except ConnectionResetError:
        pass  # closed with bytes of ours unread
    return received


# -- between the two ends


class Between:
    """Stands between one lane and the driver, and passes on what they say. `seen`: all of it. `change(chunk)`: what is
    passed on to the lane in its place."""

    def __init__(self, driver: Driver, change: Callable[[bytes], bytes] = lambda chunk: chunk) -> None:
        self.seen = bytearray()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(SOON_S)
        self.address: Address = self._listening.getsockname()
        self._driver, self._change = driver, change
        self._threads = [threading.Thread(target=self._stand)]
        self._threads[0].start()

    def _stand(self) -> None:
        lane, _ = self._listening.accept()
        with lane, socket.create_connection(self._driver.address) as driver:
            up = threading.Thread(target=self._pass_on, args=[lane, driver, lambda chunk: chunk])
            up.start()
            self._pass_on(driver, lane, self._change)
            up.join(SOON_S)

    def _pass_on(self, giver: socket.socket, taker: socket.socket, change: Callable[[bytes], bytes]) -> None:
        try:
            while chunk := giver.recv(1 << 16):
                self.seen += chunk
                taker.sendall(change(chunk))
            taker.shutdown(socket.SHUT_WR)
        except OSError:
            return  # one of them has left

    def close(self) -> None:
        self._listening.close()
        for thread in self._threads:
            thread.join(SOON_S)
            assert not thread.is_alive()
