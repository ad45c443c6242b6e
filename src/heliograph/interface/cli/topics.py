"""`heliograph topics list|pause|resume|remirror`: what an operator wants of single topics and partitions.

Thin: reads words and flags, asks before anything is lost, and shows what came of it. What is decided is operations/.
Nothing waits for a person while a connection is open: the clusters are read, then the operator is asked, then they are
connected again and written.
"""

from __future__ import annotations

import asyncio
import getpass
import socket
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from heliograph.interface.cli import logs, output
from heliograph.interface.cli.row_options import AllOption, LaggingOption, TopicOption
from heliograph.interface.cli.topics_shown import commanded_document, preview, results
from heliograph.interface.cli.topics_table import table_of
from heliograph.interface.config_file import find_config, read_settings
from heliograph.model.errors import ClusterUnreachable, UsageError
from heliograph.model.link import Link
from heliograph.model.partition_filter import PartitionFilter
from heliograph.model.settings import Settings
from heliograph.model.states import PartitionState, StopReason

if TYPE_CHECKING:
    from heliograph.operations.decision import CommandLine, Decision
    from heliograph.operations.looking import LinkView
    from heliograph.operations.recording import Done

app = typer.Typer(
    no_args_is_help=True,
    help="List, pause, resume and mirror again single topics and partitions; with or without a running mirror.",
    epilog="Example: heliograph topics list --state stopped",
)

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[LINK] TOPIC[:0,3]...",
        help="The link, which may be left out if the config has one; topics by their names at the source.",
        show_default=False,
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "-f",
        "--config",
        metavar="CONFIG",
        help="Config file; else $HELIOGRAPH_CONFIG, else ./heliograph.yaml.",
        show_default=False,
    ),
]
All = Annotated[
    bool, typer.Option("--all", help="Every topic of the link, as far as --state and --code keep it.")
]
States = Annotated[
    list[PartitionState] | None, typer.Option("--state", help="Partitions in this state only; repeatable.")
]
Codes = Annotated[
    list[StopReason] | None,
    typer.Option("--code", metavar="CODE", help="Partitions that stopped with this code only; repeatable."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking, also where something is lost.")]


@app.command("list", epilog="Example: heliograph topics list orders --state stopped --code lost")
def list_command(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[LINK] [TOPIC[:0,3]...]",
            help="This link, or these topics only; topics by their names at the source.",
            show_default=False,
        ),
    ] = None,
    config: ConfigFile = None,
    topic: TopicOption = None,
    state: States = None,
    code: Codes = None,
    lagging: LaggingOption = False,
    all_rows: AllOption = False,
    form: output.FormatOption = output.Format.table,
    as_json: output.JsonOption = False,
    _level: logs.LevelOption = None,
    _log_format: logs.LogFormatOption = None,
) -> None:
    """Show how every partition stands, why it is stopped, and who has paused it.

    Works with no mirror running: stops and pauses are recorded on the target. Exit 3 if a cluster is away.
    """
    from heliograph.operations.aim import aim_at_list
    from heliograph.operations.listing import list_document

    settings = read_settings(find_config(None, config))
    links, topics = aim_at_list(settings.links, words or (), topic or ())
    filters = PartitionFilter(topics=topics, states=state or (), codes=code or (), lagging=lagging)
    now = datetime.now(UTC)
    seen, problems = _look_at_links(settings, links, now)
    for problem in problems:
        _tell(f"warning: {problem}")
    document = list_document(seen, filters, now)
    output.emit(document, output.chosen(form, as_json), lambda each: table_of(each, all_rows=all_rows))
    away = [each for each in document["links"] if each["error"]]
    if away:
        raise ClusterUnreachable(
            "\n".join(dict.fromkeys(each["error"] for each in away)), hint=away[0]["hint"]
        )


@app.command(epilog="Example: heliograph topics pause orders:0,3 payments")
def pause(
    words: Words = None,
    config: ConfigFile = None,
    everything: All = False,
    state: States = None,
    code: Codes = None,
    dry_run: DryRun = False,
    _yes: Yes = False,
    form: output.FormatOption = output.Format.table,
    as_json: output.JsonOption = False,
    _level: logs.LevelOption = None,
    _log_format: logs.LogFormatOption = None,
) -> None:
    """Stop copying until `resume`. Nothing is lost by it as long as the source keeps the records."""
    from heliograph.operations import deciding
    from heliograph.operations.aim import take_aim

    settings = read_settings(find_config(None, config))
    aim = take_aim(settings.links, words or (), everything=everything)
    seen = _look_at_link(settings, aim.narrowed, ())
    decision = deciding.pause(aim, seen, _filter(state, code))
    _carry_out(settings, decision, dry_run=dry_run, yes=True, form=output.chosen(form, as_json))


@app.command(epilog="Example: heliograph topics resume orders:0 --accept-loss")
def resume(
    words: Words = None,
    config: ConfigFile = None,
    everything: All = False,
    state: States = None,
    code: Codes = None,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss", help="Go on without records that the source no longer holds; they are shown."
        ),
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    form: output.FormatOption = output.Format.table,
    as_json: output.JsonOption = False,
    _level: logs.LevelOption = None,
    _log_format: logs.LogFormatOption = None,
) -> None:
    """Copy on where it was paused or stopped. Exit 1 if that is refused, for example because records are lost."""
    from heliograph.operations import deciding
    from heliograph.operations.aim import take_aim

    settings = read_settings(find_config(None, config))
    aim = take_aim(settings.links, words or (), everything=everything)
    seen = _look_at_link(settings, aim.narrowed, ())
    decision = deciding.resume(
        aim, seen, _filter(state, code), accepts_loss=accept_loss, line=_command_line(config)
    )
    _carry_out(settings, decision, dry_run=dry_run, yes=yes, form=output.chosen(form, as_json))


@app.command(epilog="Example: heliograph topics remirror orders --dry-run")
def remirror(
    words: Words = None,
    config: ConfigFile = None,
    everything: All = False,
    state: States = None,
    code: Codes = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    form: output.FormatOption = output.Format.table,
    as_json: output.JsonOption = False,
    _level: logs.LevelOption = None,
    _log_format: logs.LogFormatOption = None,
) -> None:
    """Delete target topics and mirror them afresh. Shows first what only the target holds, and asks.

    With --state and --code: topics of which a partition is in this state, or stopped with this code.
    """
    from heliograph.operations import deciding
    from heliograph.operations.aim import take_aim

    settings = read_settings(find_config(None, config))
    aim, filters = take_aim(settings.links, words or (), everything=everything), _filter(state, code)
    deciding.refuse_partitions(aim, _command_line(config))
    names = [each.name for each in aim.topics]
    if everything or not filters.is_empty:
        seen = _look_at_link(settings, aim.narrowed, ())
        names = deciding.topics_kept(aim, seen, filters)
    if names:  # what is lost, and whose commits go, is read of these only
        seen = _look_at_link(settings, aim.at(names).narrowed, names)
    decision = deciding.remirror(aim, seen, filters)
    _carry_out(settings, decision, dry_run=dry_run, yes=yes, form=output.chosen(form, as_json))


def _carry_out(
    settings: Settings, decision: Decision, *, dry_run: bool, yes: bool, form: output.Format
) -> None:
    for line in preview(decision):
        _tell(line)
    recorded = None
    if decision.drafts and not dry_run:
        if decision.destroys and not yes:
            _ask()
        recorded = _record(settings, decision)
    document = commanded_document(decision, recorded)
    output.emit(document, form, results)
    if not document["done"]:
        raise typer.Exit(1)


def _ask() -> None:
    """Goes on only by a person's yes."""
    if not sys.stdin.isatty():
        raise UsageError(
            "this cannot be undone, and there is no terminal to ask",
            hint="say --yes, or --dry-run to look only",
        )
    print("This cannot be undone. Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        _tell("nothing was done")
        raise typer.Exit(1)


# -- what tests play


def _look_at_link(settings: Settings, link: Link, traced: Sequence[str]) -> LinkView:
    from heliograph.operations.looking import look_at_link

    return asyncio.run(look_at_link(settings, link, datetime.now(UTC), traced=traced, tell=_tell))


def _look_at_links(settings: Settings, links: Sequence[Link], now: datetime) -> tuple[Any, list[str]]:
    from heliograph.operations.looking import look_at_links

    return asyncio.run(look_at_links(settings, links, now))


def _record(settings: Settings, decision: Decision) -> Done:
    from heliograph.operations.recording import record

    return asyncio.run(record(settings, decision, _author(), datetime.now(UTC), tell=_tell))


# --


def _filter(state: list[PartitionState] | None, code: list[StopReason] | None) -> PartitionFilter:
    return PartitionFilter(states=state or (), codes=code or ())


def _command_line(config: Path | None) -> CommandLine:
    from heliograph.operations.decision import CommandLine

    return CommandLine(config=str(config) if config else None)


def _author() -> str:
    """A container may have no name for its user."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
