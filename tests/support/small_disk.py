"""A file system in memory that can be filled to the last byte, and made larger."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path
from typing import Self

CHUNK_BYTES = 64 << 10


class SmallDisk:
    """Needs root. Mounted from entering the context to leaving it."""

    def __init__(self, path: Path, *, size_mb: int) -> None:
        self.path = path
        self._size_mb = size_mb

    def __enter__(self) -> Self:
        self.path.mkdir()
        _run("mount", "-t", "tmpfs", "-o", f"size={self._size_mb}m", "tmpfs", str(self.path))
        return self

    def __exit__(self, *_: object) -> None:
        _run("umount", "--lazy", str(self.path))

    def fill(self) -> None:
        """Not a byte is left."""
        with (self.path / "ballast").open("wb", buffering=0) as ballast:
            for size in (CHUNK_BYTES, 1):
                try:
                    while True:
                        os.write(ballast.fileno(), b"\0" * size)
                except OSError as problem:
                    if problem.errno != errno.ENOSPC:
                        raise

    def enlarge(self, *, by_mb: int) -> None:
        self._size_mb += by_mb
        _run("mount", "-o", f"remount,size={self._size_mb}m", str(self.path))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
