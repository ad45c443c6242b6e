"""Files that secure connections, read as a whole: keystores, truststores, keytabs. Knows nothing of what is in them."""

from __future__ import annotations

import os
import stat

from heliograph.model.errors import SecurityUnusable

LARGEST_BYTES = 8 << 20  # all authorities of a system are a quarter of a megabyte


def read_store(location: str) -> bytes:
    """SecurityUnusable says why not. A pipe or a device is refused: it could not be read again when it has changed."""
    try:
        with open(location, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise SecurityUnusable(f"{location} is not a file", hint="name a file; a pipe is not read")
            data = file.read(LARGEST_BYTES + 1)
    except OSError as problem:
        raise SecurityUnusable(
            f"cannot read {location}: {problem.strerror}",
            hint=f"check the path and who may read it: ls -l {location}",
        ) from None
    except ValueError:
        raise SecurityUnusable("the path of a file holds a zero byte", hint="correct the path") from None
    if len(data) > LARGEST_BYTES:
        raise SecurityUnusable(
            f"{location} is larger than {LARGEST_BYTES >> 20} MB: that is no store of keys or certificates",
            hint="correct the path",
        )
    return data


def _without_waiting(path: str, flags: int) -> int:
    """Opening a pipe would wait for who writes it."""
    return os.open(path, flags | os.O_NONBLOCK)
