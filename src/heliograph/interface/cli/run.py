"""`heliograph run`: mirror until told to stop, or until caught up."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer

from heliograph.interface.cli import logs, output
from heliograph.interface.cli.config_path import ConfigArgument, ConfigOption
from heliograph.interface.cli.process_age import process_age_s
from heliograph.interface.cli.run_display import display_for
from heliograph.interface.cli.run_result import result_of, table_of
from heliograph.interface.config_file import find_config, read_settings
from heliograph.lab.java import find_java
from heliograph.model.errors import LabError, UsageError
from heliograph.model.settings import Settings

EPILOG = "Example: heliograph run heliograph.yaml --until-caught-up"
SECOND_SIGNAL_EXIT = 130


def command(
    path: ConfigArgument = None,
    config: ConfigOption = None,
    until_caught_up: Annotated[
        bool,
        typer.Option(
            "--until-caught-up", help="End when every partition has reached the source's end as of the start."
        ),
    ] = False,
    no_watch_config: Annotated[
        bool,
        typer.Option(
            "--no-watch-config", help="Do not read the config file again: keep to what it says at the start."
        ),
    ] = False,
    form: output.FormatOption = output.Format.table,
    as_json: output.JsonOption = False,
    _level: logs.LevelOption = None,
    _log_format: logs.LogFormatOption = None,
) -> None:
    """Mirror the links of a config file; SIGTERM or Ctrl-C drains and ends."""
    found = find_config(path, config)
    settings = read_settings(found)
    use_java()
    read_again = None if no_watch_config else partial(read_settings, found)
    board = asyncio.run(mirror(settings, until_caught_up=until_caught_up, read_again=read_again))
    form = output.chosen(form, as_json)
    idle = len(board.stopped) + len(board.awaiting_topics) + len(board.paused)
    if until_caught_up or idle or form is not output.Format.table:
        output.emit(result_of(board), form, table_of)
    nothing_to_do = bool(board.stopped) and idle == len(board.rows)
    if nothing_to_do or (until_caught_up and (idle or not board.finished)):
        raise typer.Exit(1)


def use_java() -> None:
    """Spark looks for Java in JAVA_HOME."""
    try:
        os.environ["JAVA_HOME"] = str(find_java())
    except LabError as problem:
        raise UsageError(problem.message, hint=problem.hint) from problem


async def mirror(
    settings: Settings, *, until_caught_up: bool, read_again: Callable[[], Settings] | None = None
) -> Any:
    from heliograph.controller.live_document import live_document
    from heliograph.controller.live_socket import LiveSocket
    from heliograph.controller.mirror import Mirror
    from heliograph.engine.loop_troubles import tell

    asyncio.get_running_loop().set_exception_handler(tell)
    with display_for() as show:
        run = Mirror(
            settings,
            until_caught_up=until_caught_up,
            on_tick=show,
            age_s=process_age_s(),
            read_again=read_again,
        )
        live = LiveSocket(lambda: live_document(run), run.outbox)
        stop_on_signals(run.stop)
        if read_again is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, run.look_at_config)
        await live.start()
        try:
            return await run.run()
        finally:
            await live.stop()


def end_at_once() -> None:
    os._exit(SECOND_SIGNAL_EXIT)


def stop_on_signals(stop: Callable[[], None], at_once: Callable[[], None] = end_at_once) -> None:
    """The first SIGINT or SIGTERM drains; a second one ends at once."""
    loop = asyncio.get_running_loop()

    def first() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, at_once)
        stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, first)
