"""Several clusters that start at the same time, and end together.

Owns the threads in which they start. A broker's JVM uses about one core while it starts: on two cores two clusters take
hardly longer than one.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from heliograph.lab.cluster import LabCluster
from heliograph.lab.listeners import Listener


@contextmanager
def started_together(
    *names: str, listeners: Mapping[str, Sequence[Listener]] | None = None
) -> Iterator[tuple[LabCluster, ...]]:
    """One-node clusters; `listeners`: secured ones by the name of a cluster. Whatever ends the context, also Ctrl-C
    while they start, leaves no broker and no file."""
    secured = listeners or {}
    clusters: list[LabCluster] = []
    pool = ThreadPoolExecutor(len(names), thread_name_prefix="lab")
    try:
        clusters.extend(LabCluster.made(name=name, listeners=secured.get(name, ())) for name in names)
        for started in [pool.submit(cluster.come_up) for cluster in clusters]:
            started.result()
        yield tuple(clusters)
    finally:
        with _undisturbed():
            for cluster in clusters:
                cluster.stop()  # one that still starts notices it, and its thread ends
            pool.shutdown(cancel_futures=True)
            for cluster in clusters:
                cluster.stop()  # what such a thread has written meanwhile


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A second Ctrl-C must not end the cleaning up after the first."""
    if threading.current_thread() is not threading.main_thread():  # only that one is disturbed by signals
        yield
        return
    before = {each: signal.signal(each, signal.SIG_IGN) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
