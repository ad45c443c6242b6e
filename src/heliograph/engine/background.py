"""Calls to Spark's JVM that nobody waits for without a limit: it may be frozen, and a call through py4j then never
returns."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any


def in_background(name: str, work: Callable[[], Any]) -> threading.Thread:
    """A call that may never return, or fail because the JVM is gone: neither is the caller's trouble."""

    def run() -> None:
        with contextlib.suppress(Exception):
            work()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread
