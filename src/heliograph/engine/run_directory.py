"""The directory for all that a run's Spark writes, and the removal of what killed runs have left."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

DIRECTORY_PREFIX = "heliograph-run-"
LOCK_NAME = "lock"


def sweep() -> None:
    """Remove what runs that were killed have left behind.

    By their locks, not by their process ids: a live run of another container may share the directory of temporary
    files, and its ids mean nothing here.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{DIRECTORY_PREFIX}*-*"):
        # OSError: no lock file, not ours to open, or held by a run that lives
        with contextlib.suppress(OSError), (left / LOCK_NAME).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left, ignore_errors=True)


class RunDirectory:
    """A directory of this run's own, locked until it is removed, or its process has ended in whatever way."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=f"{DIRECTORY_PREFIX}{os.getpid()}-"))
        unlocked = self.path / f"{LOCK_NAME}.new"
        self._lock = unlocked.open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unlocked.rename(self.path / LOCK_NAME)  # under this name it is never seen without its lock

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()
