"""What stands in for the outside while a world is played: clocks, chance, threads, logs, and what speaks Kafka's
protocol beside the copier's ports. The one place that patches production code for a simulation that is right."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from heliograph.cluster import election
from heliograph.controller import (
    act,
    beginnings,
    build_changes,
    builds,
    first_records,
    half_built,
    making,
    mirror,
    takeover,
)
from heliograph.copier import building, merging, resynchroniser
from heliograph.copier import lane as lane_module
from heliograph.engine import lane_orders, lanes, starting
from heliograph.engine.versions import versions
from heliograph.model import marker_label
from heliograph.wire import runs
from heliograph.wire.kernels import loading
from heliograph.wire.kernels.loading import Kernels

from .build_side import alter_topic_configs, describe_topic_configs, make_cleaning
from .driver_clusters import create_topic
from .driver_reads import batches_at, list_offsets, read_spans, read_stable_ends
from .group_side import call
from .machine_clocks import each_with_its_own
from .sim_lane import SimLane
from .virtual_loop import process_that_runs

if TYPE_CHECKING:
    from .world import World

# How often what is only shown is shown: less often costs fewer turns, and nothing rests on it.
PACES = (
    (mirror, "TICK_S", 1.0),
    (lane_orders, "PROGRESS_S", 0.5),
    (election, "WATCH_S", 1.0),
    (lane_module, "ROUTE_INTERVAL_S", 1.0),
)


# Where compacted topics are built: in small steps, by settings and cleaners that are models.
BUILDS = (
    (building, "MOST_OFFSETS", 12),
    (mirror, "Builds", partial(builds.Builds, alter=alter_topic_configs, make_cleaning=make_cleaning)),
    (build_changes, "alter_topic_configs", alter_topic_configs),
    (making, "describe_topic_configs", describe_topic_configs),
    (first_records, "read_spans", read_spans),
    (first_records, "batches_at", batches_at),
)


class _AtOnce:
    """A thread that has done its work when it is started."""

    def __init__(self, target: Callable[[], None], **_how: Any) -> None:
        self.start = target


def _kernels_of_lane() -> Kernels | None:
    """Which lanes merge, and from when on, is the plan's. All can compare: who needs that waits until it can."""
    lane = process_that_runs()
    return loading.loaded() if isinstance(lane, SimLane) and lane.has_kernels else None


@contextmanager
def in_the_place_of_the_outside(world: World) -> Iterator[None]:
    """Clocks, chance, threads, and what speaks Kafka's protocol beside the ports."""
    loading.wait()
    with ExitStack() as stack:
        stack.enter_context(each_with_its_own(world))
        for where, name, value in (
            (election, "random", world.chance),
            (election, "call", call),
            (act, "create_topic", create_topic),
            (beginnings, "read_spans", read_spans),
            (beginnings, "read_stable_ends", read_stable_ends),
            (beginnings, "list_offsets", list_offsets),
            (beginnings, "batches_at", batches_at),
            (half_built, "describe_topic_configs", describe_topic_configs),
            (takeover, "time_of_day", world.time_of_day),
            (lanes, "versions", lambda: _VERSIONS),
            (starting, "threading", SimpleNamespace(Thread=_AtOnce, Event=threading.Event)),
            (resynchroniser, "QUESTIONS_AT_ONCE", world.plan.conditions.questions_at_once),
            (runs, "loaded", _kernels_of_lane),
            (merging, "loaded", _kernels_of_lane),
            *PACES,
            *(BUILDS if world.plan.builds else ()),
            (marker_label, "BLOCK_OFFSETS", world.plan.gaps.block_offsets),
        ):
            stack.enter_context(patch.object(where, name, value))
        with _logged(world):
            yield


_VERSIONS = versions()


@contextmanager
def _logged(world: World) -> Iterator[None]:
    """What production code logs is part of the story, and otherwise costs nothing."""
    if not world.traces:
        before = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(before)
        return

    class Teller(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            world.tell("  log:", record.getMessage())

    teller, root = Teller(), logging.getLogger("heliograph")
    level, root.level = root.level, logging.INFO
    root.addHandler(teller)
    propagate, root.propagate = root.propagate, False
    try:
        yield
    finally:
        root.removeHandler(teller)
        root.level, root.propagate = level, propagate
