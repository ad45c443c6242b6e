"""Compiles the kernels and keeps them for the runs to come: `python -m heliograph.wire.kernels` prints where."""

from __future__ import annotations

import sys

from heliograph.model.errors import HeliographError
from heliograph.wire.kernels.loading import wait
from heliograph.wire.kernels.machine_code import directory


def main() -> int:
    try:
        wait()
    except HeliographError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return error.exit_code
    place = directory()
    if place is None:
        sys.stderr.write(
            "error: the cache directory cannot be written, or others can write it\n"
            "hint: export XDG_CACHE_HOME=$HOME/.cache-of-mine\n"
        )
        return 1
    sys.stdout.write(f"{place}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
