"""A lane's end of the control line, in a thread and an event loop of its own.

So that a busy data loop never delays a heartbeat, and a slow driver never delays the data loop. Nothing is sent before
the driver has shown the certificate of the run, and nothing but a proof before it has given its own. When the line
ends, or says nothing for `SILENCE_LIMIT_S`, the driver is gone or thinks that we are: `on_end` is called, once.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable

from heliograph.copier.lease import ALIVE_S
from heliograph.engine.frames import framed, read
from heliograph.engine.line_tls import SealedStream, lane_context
from heliograph.engine.orders import Order, Report, decode_order, encode
from heliograph.engine.proof import PROOF_TIMEOUT_S, TURN_LIMIT_S, prove_as_lane
from heliograph.model.errors import HeliographError

CONNECT_TIMEOUT_S = 10.0
SILENCE_LIMIT_S = ALIVE_S
HEARTBEAT_S = 1.0


class ControlLine:
    """`fingerprint`: of the driver's certificate. `beat` makes a heartbeat. It, `on_order` and `on_end` run in this
    thread: they must only hand over."""

    def __init__(
        self,
        address: tuple[str, int],
        secret: bytes,
        lane: int,
        *,
        fingerprint: bytes,
        beat: Callable[[], Report],
        on_order: Callable[[Order], None],
        on_end: Callable[[str], None],
    ) -> None:
        self._beat_of = beat
        self._address = address
        self._secret = secret
        self._fingerprint = fingerprint
        self._lane = lane
        self._on_order = on_order
        self._on_end = on_end
        self._loop = asyncio.new_event_loop()
        self._line: SealedStream | None = None
        self._closing = asyncio.Event()  # made here, so that closing before the loop runs is not lost
        self._proven = False
        self._early: list[bytes] = []  # sent before the driver was known to be the driver
        self._thread = threading.Thread(target=self._run, name="control-line", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def send(self, report: Report) -> None:
        """Send soon; dropped when the line has ended."""
        frame = framed(encode(report))
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._write, frame)

    def close(self) -> None:
        """End the line after what was sent, and the thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(CONNECT_TIMEOUT_S)

    def _write(self, frame: bytes) -> None:
        if self._proven and self._line is not None:
            self._line.write(frame)
        else:
            self._early.append(frame)

    def _run(self) -> None:
        reason = "the control line ended"
        try:
            reason = self._loop.run_until_complete(self._live())
        except (OSError, TimeoutError, HeliographError) as problem:
            reason = f"the control line failed: {problem}"
        except Exception as problem:  # noqa: BLE001 - a bug must end the lane too, not leave it without a line
            reason = f"the control line failed: {type(problem).__name__}: {problem}"
        finally:
            self._loop.close()
            self._on_end(reason)

    async def _live(self) -> str:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(*self._address)
        self._line = line = SealedStream(reader, writer, lane_context(), server_side=False)
        try:
            await self._meet_driver(line)
            self._proven = True
            for frame in self._early:
                line.write(frame)
            ends = {
                asyncio.create_task(work) for work in (self._listen(line), self._beat(), self._closed(line))
            }
            done, rest = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)
            return done.pop().result()
        finally:
            line.close()

    async def _meet_driver(self, line: SealedStream) -> None:
        async with asyncio.timeout(TURN_LIMIT_S + PROOF_TIMEOUT_S):
            await line.handshake()
        line.check_fingerprint(self._fingerprint)
        async with asyncio.timeout(PROOF_TIMEOUT_S):
            await prove_as_lane(line, self._secret, self._lane)

    async def _listen(self, line: SealedStream) -> str:
        while True:
            try:
                async with asyncio.timeout(SILENCE_LIMIT_S):
                    body = await read(line)
            except TimeoutError:
                return f"no word from the driver for {SILENCE_LIMIT_S:.0f} s"
            if body is None:
                return "the driver closed the control line"
            self._on_order(decode_order(body))

    async def _beat(self) -> str:
        while True:
            self._write(framed(encode(self._beat_of())))
            await asyncio.sleep(HEARTBEAT_S)

    async def _closed(self, line: SealedStream) -> str:
        await self._closing.wait()
        await line.drain()
        return "closed"
