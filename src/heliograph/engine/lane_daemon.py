"""Spark's forking daemon, with all that a lane needs loaded before the first is forked (`spark.python.daemon.module`).

Lanes begin at once, and share the memory of what was loaded. Kernels are among it if this machine has loaded them
before: no lane waits for a compiler.
"""

from __future__ import annotations

import contextlib
import gc
import os

# Before numpy is imported: its linear algebra would start a thread for each core, and nobody here calculates.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pyspark.worker  # noqa: F401 (for the lanes)
from pyspark.daemon import manager

import heliograph.engine.lane_task  # noqa: F401 (for the lanes)
from heliograph.model.errors import HeliographError
from heliograph.wire.kernels import loading, machine_code


def main() -> None:
    if machine_code.is_filled():
        with contextlib.suppress(HeliographError):  # each lane says so
            loading.wait()
    # What is loaded stays: the collector need not look at it again, nor write to it, which would end the sharing.
    gc.collect()
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
