"""Where compiled kernels are kept: a directory of the user's cache, named after the kernels' source.

    $NUMBA_CACHE_DIR                              where it is set
    __pycache__ beside the source                 where they came with it, packed for executors
    $XDG_CACHE_HOME/heliograph/kernels/<source>   otherwise

numba looks at one file's source to know whether its machine code is still right; a kernel is made of several. So the
directory's name is the hash of them all. The CPU and the versions of Python and numba are numba's own to compare.
What is kept there is run: a directory that others can write is not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import tempfile
from functools import cache
from importlib.metadata import version
from pathlib import Path

from heliograph.model.user_cache import cache_root

BESIDE = "__pycache__"  # where numba looks when it is told no directory
SUFFIXES = (".nbi", ".nbc")
_BESIDE = Path(__file__).parent / BESIDE


@cache
def shipped() -> bool:
    """Whether machine code came with this source, and numba would look there."""
    try:
        if os.environ.get("NUMBA_CACHE_DIR") or not any(_BESIDE.glob(f"*{SUFFIXES[0]}")):
            return False
        return _can_be_used(_BESIDE)
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
    """Whether this machine has loaded these kernels before, and loading them again is a matter of half a second."""
    try:
        mark = _mark()
    except (ImportError, OSError):
        return False  # numba is missing or broken here: whoever loads kernels finds out, and says so
    return mark is not None and mark.exists()


def note_filled() -> None:
    """They are loaded, and so in the cache."""
    mark = _mark()
    if mark is not None:
        with contextlib.suppress(OSError):
            mark.touch()


def _mark() -> Path | None:
    """Of this machine: numba tells machine code by CPU, Python, its own version, and where the source is. Its index
    cannot be read without it."""
    place = _BESIDE if shipped() else directory()
    if place is None:
        return None
    from llvmlite import binding

    features = sorted(binding.get_host_cpu_features().items())
    told = (binding.get_host_cpu_name(), features, sys.version, version("numba"), str(Path(__file__).parent))
    return Path(place, f"loaded-{hashlib.sha256(repr(told).encode()).hexdigest()[:16]}")


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
