"""`heliograph events`: what runs have told, read from the target clusters; with or without a running mirror.

Thin: reads words and flags, and prints what comes. What is read is operations/event_reading.py's, how it looks
events_shown.py's. With --follow it goes on until SIGINT or SIGTERM, which is how it is meant to end: exit 0.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Coroutine, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heliograph.interface.cli import logs, output
from heliograph.interface.cli.run import stop_on_signals
from heliograph.interface.config_file import find_config, read_settings
from heliograph.model.link import Link
from heliograph.model.settings import Settings

if TYPE_CHECKING:
    from heliograph.interface.cli.events_shown import Shown
    from heliograph.operations.event_clusters import EventCluster
    from heliograph.operations.event_reading import EventReader
    from heliograph.operations.recorded_event import RecordedEvent

EPILOG = "Example: heliograph events --since 1h --follow"
DEFAULT_SINCE = "24h"  # what happened since yesterday at this time: nobody was there at night


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="LINK",
            help="Events of these links only; those of runs as a whole are left out.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "-f",
            "--config",
            metavar="CONFIG",
            help="Config file; else $HELIOGRAPH_CONFIG, else ./heliograph.yaml.",
            show_default=False,
        ),
    ] = None,
    since: Annotated[
        str, typer.Option("--since", metavar="AGE|TIME", help="15m, 1h, 7d, or 2026-01-31T12:00:00Z.")
    ] = DEFAULT_SINCE,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with what comes, until Ctrl-C or SIGTERM.")
    ] = False,
    link: Annotated[
        list[str] | None, typer.Option("--link", metavar="LINK", help="The same as naming it; repeatable.")
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", metavar="TOPIC[:0,3]", help="About this topic, by its source name; repeatable."
        ),
    ] = None,
    code: Annotated[
        list[str] | None,
        typer.Option("--code", metavar="CODE", help="With this code (docs/EVENTS.md); repeatable."),
    ] = None,
    all_rows: Annotated[bool, typer.Option("--all", help="All rows, not only the newest 50.")] = False,
    form: output.FormatOption = output.Format.table,
    as_json: output.JsonOption = False,
    _level: logs.LevelOption = None,
    _log_format: logs.LogFormatOption = None,
) -> None:
    """Show what happened, from the target clusters; needs neither the sources nor a running mirror.

    Exit 3 if a cluster cannot be reached: what the others hold is shown. With --follow it is waited for.
    """
    from heliograph.interface.cli.events_shown import shown_as
    from heliograph.operations.event_aim import take_event_aim
    from heliograph.operations.event_reading import EventReader

    settings = read_settings(find_config(None, config))
    aim = take_event_aim(
        settings.links,
        [*(names or ()), *(link or ())],
        since=since,
        now=datetime.now(UTC),
        topics=topic or (),
        codes=code or (),
    )
    for name in aim.unmirrored:
        _tell(f"warning: no link that is meant mirrors topic {name} now")
    reader = EventReader(_clusters(settings, aim.links), aim, _tell, follows=follow)
    shown = shown_as(output.chosen(form, as_json), follow=follow, all_rows=all_rows, since=aim.since)
    if follow:
        asyncio.run(_until_stopped(_show(reader, shown, follow=True)))
        return
    asyncio.run(_show(reader, shown, follow=False))
    if reader.failure is not None:
        raise reader.failure


async def _show(reader: EventReader, shown: Shown, *, follow: bool) -> None:
    async def past(events: Sequence[RecordedEvent]) -> None:
        await _write(shown.past(events))

    async def live(events: Sequence[RecordedEvent]) -> None:
        await _write(shown.live(events))

    try:
        await reader.read_past(past)
        await _write(shown.past_is_over())
        if follow:
            await reader.follow(live)
    finally:
        await reader.aclose()


async def _write(text: str) -> None:
    """In a thread: a pipe that nobody reads must not keep signals from being heard."""
    if text:
        await asyncio.to_thread(output.write, text)


async def _until_stopped(work: Coroutine[None, None, None]) -> None:
    task = asyncio.ensure_future(work)

    def stop() -> None:
        task.cancel()

    stop_on_signals(stop)
    with contextlib.suppress(asyncio.CancelledError):
        await task


# -- what tests play


def _clusters(settings: Settings, links: Sequence[Link]) -> list[EventCluster]:
    from heliograph.operations.event_clusters import target_clusters

    return target_clusters(settings, links)


# --


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
