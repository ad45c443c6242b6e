"""Where compiled kernels are kept: a directory of the user's cache, named after the kernels' source.

    $NUMBA_CACHE_DIR                              where it is set
    __pycache__ beside the source                 where they came with it, packed for executors
    $XDG_CACHE_HOME/heliograph/kernels/<source>   otherwise

numba looks at one file's source to know whether its machine code is still right; a kernel is made of several. So the
directory's name is the hash of them all. The CPU and the versions of Python and numba are numba's own to compare.
What is kept there is run: a directory that others can write is not used.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from functools import cache
from pathlib import Path

from heliograph.model.user_cache import cache_root

BESIDE = "__pycache__"  # where numba looks when it is told no directory
SUFFIXES = (".nbi", ".nbc")


@cache
def shipped() -> bool:
    """Whether machine code came with this source, and numba would look there."""
    place = Path(__file__).parent / BESIDE
    try:
        if os.environ.get("NUMBA_CACHE_DIR") or not any(place.glob(f"*{SUFFIXES[0]}")):
            return False
        return _can_be_used(place)
    except OSError:
        return False


@cache
def directory() -> str | None:
    """None: nothing can be kept."""
    try:
        place = Path(os.environ.get("NUMBA_CACHE_DIR") or cache_root() / "kernels") / _source()
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _can_be_used(place):
            return None
    except (OSError, RuntimeError):  # RuntimeError: the user has no home
        return None
    return str(place)


def is_filled() -> bool:
    """Whether kernels were compiled before, and loading them is a matter of half a second."""
    place = directory()
    return shipped() or (place is not None and any(Path(place).glob(f"*/*{SUFFIXES[1]}")))


def _can_be_used(place: Path) -> bool:
    """We can write there, which numba insists on, and nobody else can."""
    tempfile.TemporaryFile(dir=place).close()
    found = place.stat()
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _source() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
