"""Where compiled kernels are kept: a directory of the user's cache, named after the kernels' source.

    $NUMBA_CACHE_DIR                              where it is set
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


@cache
def directory() -> str | None:
    """None: nothing can be kept."""
    try:
        place = Path(os.environ.get("NUMBA_CACHE_DIR") or cache_root() / "kernels") / _source()
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _only_ours(place):
            return None
        tempfile.TemporaryFile(dir=place).close()
    except (OSError, RuntimeError):  # RuntimeError: the user has no home
        return None
    return str(place)


def _only_ours(place: Path) -> bool:
    found = place.stat()
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _source() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
