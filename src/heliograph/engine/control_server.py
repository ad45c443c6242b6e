"""The driver's end of the control lines, in a thread and an event loop of its own.

A lane that connects and proves itself is known by its number until its line ends; a newer line of the same lane
replaces the older, whose closing ends what is left of it (lane_lines.py). Nothing here knows what the messages mean.

Callbacks run in this thread: they must only hand over (for example to another loop).
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable

from heliograph.engine.frames import framed, read
from heliograph.engine.lane_lines import SILENT_TICKS, LaneLine, LaneLines
from heliograph.engine.line_certificate import new_certificate
from heliograph.engine.line_tls import SealedStream
from heliograph.engine.orders import Order, Report, decode_report, encode
from heliograph.engine.proof import PROOF_TIMEOUT_S, TURN_LIMIT_S, prove_as_driver
from heliograph.model.errors import Disconnected, EngineLost, ProtocolError
from heliograph.model.events import Event
from heliograph.model.outbox import Outbox

# Who connects must do the TLS handshake and prove itself before anything else of it is read. A few do so at once; the
# others wait in a queue, so that hundreds of lanes that start together all get in. It is bounded: strangers must not
# take all file descriptors.
UNPROVEN_AT_ONCE = 64
WAITING_AT_ONCE = 512
BACKLOG = 512  # connections that the kernel keeps until they are accepted; asyncio's own 100 are too few
START_TIMEOUT_S = 10.0
SILENCE_TICK_S = 1.0


class ControlServer:
    """`on_report(lane, report)`; `on_gone(lane)` when the line of a lane has ended and no newer one is there.

    `on_silent(lane)` comes before `on_gone` where it was ended here because nothing came from the lane.
    """

    def __init__(
        self,
        secret: bytes,
        on_report: Callable[[int, Report], None],
        on_gone: Callable[[int], None],
        *,
        on_silent: Callable[[int], None] = lambda _: None,
        outbox: Outbox,
    ) -> None:
        self._outbox = outbox
        self._secret = secret
        self._certificate = new_certificate()
        self._lines: LaneLines[SealedStream] = LaneLines(on_report, on_gone, on_silent)
        self._turns = asyncio.Semaphore(UNPROVEN_AT_ONCE)
        self._waiting = 0
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._stopping: asyncio.Event | None = None
        self._failed: OSError | None = None
        self.address: tuple[str, int] = ("", 0)
        self._thread = threading.Thread(target=self._run, name="control-line", daemon=True)

    @property
    def fingerprint(self) -> bytes:
        """Of the certificate that it shows to lanes."""
        return self._certificate.fingerprint

    def start(self, bind_host: str) -> tuple[str, int]:
        """Listen on a free port of this host; return the address."""
        self.address = (bind_host, 0)
        self._thread.start()
        if not self._started.wait(START_TIMEOUT_S) or self._failed is not None:
            raise EngineLost(
                f"the control line cannot listen on {bind_host}: {self._failed}",
                hint="set spark.driver.bindAddress to an address of this machine",
            )
        return self.address

    def send(self, lane: int, order: Order) -> None:
        """Send if the lane's line is there; a lane that is gone learns everything anew when it comes back."""
        frame = framed(encode(order))
        with contextlib.suppress(RuntimeError):  # the loop has ended, and every line with it
            self._loop.call_soon_threadsafe(self._write, lane, frame)

    def end_line(self, lane: int) -> None:
        """Close the line of a lane that is of no use any more."""
        with contextlib.suppress(RuntimeError):  # the loop has ended, and every line with it
            self._loop.call_soon_threadsafe(self._abort, lane)

    def _abort(self, lane: int) -> None:
        line = self._lines.of(lane)
        if line is not None:
            line.abort()

    def stop(self) -> None:
        if self._thread.is_alive() and self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(START_TIMEOUT_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except OSError as problem:
            self._failed = problem
        finally:
            self._loop.close()
            self._started.set()

    async def _serve(self) -> None:
        self._stopping = asyncio.Event()
        server = await asyncio.start_server(self._accept, self.address[0], 0, backlog=BACKLOG)
        self.address = (self.address[0], server.sockets[0].getsockname()[1])
        self._started.set()
        await self._stopping.wait()
        server.close()
        for line in self._lines:
            line.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = SealedStream(reader, writer, self._certificate.context, server_side=True)
        line.pause()  # until its turn
        try:
            await self._listen(await self._prove(line), line)
        except (ProtocolError, Disconnected) as problem:
            self._outbox.tell(Event.CONTROL_LINE, f"control line: {problem.message}")
        except asyncio.CancelledError:
            return  # the server ends; Python 3.11's streams would report a task that ends as cancelled
        finally:
            line.close()

    async def _prove(self, line: SealedStream) -> int:
        await self._take_turn()
        try:
            async with asyncio.timeout(PROOF_TIMEOUT_S):
                line.resume()
                await line.handshake()
                return await prove_as_driver(line, self._secret)
        except TimeoutError:
            raise ProtocolError("a peer that proved nothing in time") from None
        finally:
            self._turns.release()

    async def _take_turn(self) -> None:
        """First come, first served. Lanes prove themselves in milliseconds: only strangers make others wait long."""
        if self._waiting >= WAITING_AT_ONCE:
            raise ProtocolError(f"a peer was turned away: {self._waiting} others wait to prove themselves")
        self._waiting += 1
        try:
            async with asyncio.timeout(TURN_LIMIT_S):
                await self._turns.acquire()
        except TimeoutError:
            raise ProtocolError(
                f"a peer was turned away: its turn did not come in {TURN_LIMIT_S:.0f} s"
            ) from None
        finally:
            self._waiting -= 1

    async def _listen(self, lane: int, line: SealedStream) -> None:
        older = self._lines.of(lane)
        if older is not None:
            older.close()
        known = self._lines.opened(lane, line)
        watch = asyncio.create_task(self._watch(known))
        try:
            while (body := await read(line)) is not None:
                self._lines.heard(known, decode_report(body))
        except Disconnected as cut:
            self._outbox.tell(Event.LANE_GONE, f"lane {lane}: {cut.message}")
            known.cut()
        finally:
            watch.cancel()
            self._lines.ended(known)

    async def _watch(self, known: LaneLine[SealedStream]) -> None:
        while not known.silent:
            await asyncio.sleep(SILENCE_TICK_S)
            known.tick()
        silent_s = SILENT_TICKS * SILENCE_TICK_S
        words = f"lane {known.lane} gave no sign of life for {silent_s:.0f} s: its line is closed"
        self._outbox.tell(Event.LANE_HUNG, words)
        known.line.abort()  # what is buffered for it would never be taken

    def _write(self, lane: int, frame: bytes) -> None:
        line = self._lines.of(lane)
        if line is not None:
            line.write(frame)
