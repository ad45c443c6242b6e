"""How a running mirror can be asked: one Unix socket per process, in a directory only its user can enter.

A connection gets one JSON document, what only the running mirror knows, and is closed. A socket whose process is
gone is removed by whoever finds it so.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from heliograph.model.events import Event
from heliograph.model.outbox import Outbox

READ_TIMEOUT_S = 2.0
READ_LIMIT_BYTES = 64 << 20

Document = dict[str, Any]


def runtime_directory() -> Path:
    base = os.environ.get("XDG_RUNTIME_DIR")
    return Path(base) / "heliograph" if base else Path(tempfile.gettempdir()) / f"heliograph-{os.getuid()}"


class LiveSocket:
    """`describe()` gives the document; it is called on the event loop for each connection."""

    def __init__(self, describe: Callable[[], Document], outbox: Outbox) -> None:
        self._describe = describe
        self._outbox = outbox
        self._path = runtime_directory() / f"{os.getpid()}.sock"
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """A mirror that cannot be asked mirrors all the same: `status` then says `unknown`."""
        try:
            _make_private(self._path.parent)
            self._path.unlink(missing_ok=True)
            self._server = await asyncio.start_unix_server(self._answer, self._path)
        except OSError as problem:
            words = f"`heliograph status` cannot ask this mirror: {self._path}: {problem}"
            self._outbox.tell(Event.NO_STATUS, words)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # others' sockets keep the directory
                self._path.parent.rmdir()

    async def _answer(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):  # who asked went away: nobody is left to tell
            writer.write(json.dumps(self._describe()).encode())
            await writer.drain()
        writer.close()


def _make_private(directory: Path) -> None:
    directory.mkdir(mode=0o700, exist_ok=True)
    if directory.stat().st_uid != os.getuid():
        raise PermissionError(f"{directory} belongs to somebody else")
    directory.chmod(0o700)


def ask_all() -> list[Document]:
    """What every running mirror of this user says."""
    directory = runtime_directory()
    if not directory.is_dir():
        return []
    answers = (_ask(path) for path in sorted(directory.glob("*.sock")))
    return [answer for answer in answers if answer is not None]


def _ask(path: Path) -> Document | None:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(READ_TIMEOUT_S)
        try:
            peer.connect(str(path))
            return _read(peer)
        except ConnectionRefusedError:
            # Left behind by a process that was killed; or of one that is about to listen.
            if _is_gone(path):
                path.unlink(missing_ok=True)
        except (OSError, ValueError, RecursionError):
            return None  # busy, half gone or no mirror: status says `unknown`
    return None


def _is_gone(path: Path) -> bool:
    """Whether no process has the number that the socket is named after."""
    if not path.stem.isdecimal():
        return False
    number = int(path.stem)
    try:
        os.kill(number, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        return False
    return number == 0


def _read(peer: socket.socket) -> Document:
    received = bytearray()
    deadline = time.monotonic() + READ_TIMEOUT_S
    while part := peer.recv(1 << 16):
        received += part
        if len(received) > READ_LIMIT_BYTES or time.monotonic() > deadline:
            raise ValueError("a live document over the limit of size or time")
    document = json.loads(received)
    if not isinstance(document, dict):
        raise ValueError("a live document that is no object")
    return document
