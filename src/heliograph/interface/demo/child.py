"""A process beside the demo's own: started, told to go, heard line by line, ended.

Owns the process and the thread that reads its lines. Must not know what it does. It is in a session of its own, so
that a Ctrl-C reaches the demo alone, which then ends it; its stdin closes with the demo's process, whatever ends that.
"""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import threading
from typing import Any

from heliograph.model.errors import HeliographError


class Child:
    """`module` is run with these arguments; each line that it prints is a JSON value."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._name = module.rpartition(".")[2]
        self._heard: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, name=self._name, daemon=True)
        self._reader.start()

    def go(self) -> None:
        """One line to its stdin."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # that it has failed, `heard` tells
            self._process.stdin.write(b"go\n")
            self._process.stdin.flush()

    def heard(self) -> list[Any]:
        """What it has said since this was asked last; raises if it has failed."""
        if self._process.poll() not in (None, 0):
            raise HeliographError(f"the demo's {self._name} process failed", hint="its own words are above")
        return [self._heard.get() for _ in range(self._heard.qsize())]

    def last_words(self) -> Any:
        """The last value, when it has ended."""
        self._process.wait()
        self._reader.join()
        return self.heard()[-1]

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._heard.put(json.loads(line))
