"""How a run shows itself: a live panel in a terminal, plain lines elsewhere. On stderr; results go to stdout."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from heliograph.interface.cli import logs
from heliograph.model.events import Severity, severity_of
from heliograph.model.states import STANDING_BY

LINE_EVERY_S = 5.0
Show = Callable[[Any], None]


@contextmanager
def display_for() -> Iterator[Show]:
    if sys.stderr.isatty() and not logs.writes_json():
        with _panel() as show:
            yield show
    else:
        yield _Lines().show


def facts(mirror: Any) -> dict[str, Any]:
    """The few figures both displays show."""
    board = mirror.board
    rates = [board.rates(link.name) for link in mirror.settings.links]
    return {
        "phase": mirror.phase,
        "copied": board.copied_records,
        "goal": board.goal_records,
        "lag": board.lag_records,
        "records_per_s": sum(rate[0] for rate in rates),
        "mb_per_s": sum(rate[1] for rate in rates) / 1e6,
        "partitions": len(board.rows),
        "stopped": len(board.stopped),
        "lanes": sum(lane.pid is not None for lane in mirror.lanes),
        "lanes_wanted": len(mirror.lanes),
    }


def sentence(seen: dict[str, Any]) -> str:
    if seen["phase"] == STANDING_BY:  # what the active run copies, this one does not know
        return (
            f"{STANDING_BY}: {seen['partitions']} partitions, {seen['lanes']} of {seen['lanes_wanted']} lanes"
        )
    but = " (stopped partitions not counted)" if seen["stopped"] else ""
    return (
        f"{seen['phase']}: {seen['copied']:,} records copied, {seen['lag']:,} behind{but},"
        f" {seen['records_per_s']:,.0f} records/s, {seen['mb_per_s']:,.1f} MB/s;"
        f" {seen['partitions']} partitions ({seen['stopped']} stopped),"
        f" {seen['lanes']} of {seen['lanes_wanted']} lanes"
    )


def told_so_far(mirror: Any) -> str:
    """How often each warning and each error came."""
    counts = {code: n for code, n in mirror.outbox.counts.items() if severity_of(code) is not Severity.INFO}
    return ", ".join(f"{n:,} {code}" for code, n in counts.items())


class _Lines:
    """A line when the phase changes, then one every few seconds while something moves."""

    def __init__(self) -> None:
        self._last: dict[str, Any] = {}
        self._said_at = 0.0

    def show(self, mirror: Any) -> None:
        seen, now = facts(mirror), time.monotonic()
        changed_phase = seen["phase"] != self._last.get("phase")
        moved = seen != self._last and now - self._said_at >= LINE_EVERY_S
        if changed_phase or moved:
            self._last, self._said_at = seen, now
            logs.show_progress(sentence(seen), seen)


@contextmanager
def _panel() -> Iterator[Show]:
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(bar_width=40), TextColumn("{task.percentage:>3.0f}%")
    )
    task = bar.add_task("heliograph", total=1)
    with Live(bar, console=Console(stderr=True), refresh_per_second=8, transient=False) as live:

        def show(mirror: Any) -> None:
            seen = facts(mirror)
            bar.update(task, total=max(seen["goal"], 1), completed=seen["copied"], description=seen["phase"])
            lines = [Text(sentence(seen))]
            if told := told_so_far(mirror):
                lines.append(Text(told))
            if mirror.ui_address:
                lines.append(Text(f"Spark UI: {mirror.ui_address}", style="dim"))
            live.update(Group(bar, *lines))

        yield show
