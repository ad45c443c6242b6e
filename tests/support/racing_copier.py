"""A copier in a process of its own, without lease or election: to be raced, killed and frozen.

`python -m tests.support.racing_copier SOURCE TARGET TOPIC merge|pass` is the process: it copies until it is ended, and
tells on standard output, a line now and then, how many merged appends it has made. Its records must be fresh: only the
target's comparing of sequences keeps racers apart.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from types import TracebackType
from typing import IO, Self

from heliograph.wire.kernels.loading import wait

from .plain_mirror import planned_lane, settings_for

TELL_S = 0.2
SLOWLY = {"fetch.max.bytes": "20000", "max.partition.fetch.bytes": "20000"}


class RacingCopier:
    """Enter it: it copies. `merges`: of all processes that it has been."""

    def __init__(self, source: str, target: str, topic: str, *, merging: bool) -> None:
        way = "merge" if merging else "pass"
        self._command = [sys.executable, "-m", "tests.support.racing_copier", source, target, topic, way]
        self._process: subprocess.Popen[str] | None = None
        self._told = 0
        self._of_former = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def merges(self) -> int:
        return self._of_former + self._told

    @property
    def lives(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        threading.Thread(target=self._listen, args=(self._process.stdout,), daemon=True).start()

    def kill(self) -> None:
        process = self._process
        if process is not None:
            process.kill()
            process.wait()
            self._of_former, self._told = self.merges, 0

    def freeze(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def _listen(self, lines: IO[str]) -> None:
        with lines:
            for line in lines:
                self._told = int(line)


async def _copy(source: str, target: str, topic: str, way: str) -> None:
    async with planned_lane(settings_for(source, target, [topic], consumer=SLOWLY)) as (todo, lane, links):
        specs = [copy.spec for copy in todo.copies]
        links.assign(specs if way == "merge" else [replace(spec, max_merged_bytes=0) for spec in specs])
        while True:
            await asyncio.sleep(TELL_S)
            sys.stdout.write(f"{sum(copy.merges for copy in lane.copies.values())}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    wait()
    asyncio.run(_copy(*sys.argv[1:]))
