"""`heliograph status`: how every link stands, from both clusters and from a running mirror if there is one."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.table import Table

from heliograph.interface.cli import logs, output
from heliograph.interface.cli.config_path import ConfigArgument, ConfigOption
from heliograph.interface.config_file import find_config, read_settings
from heliograph.model.errors import ClusterUnreachable
from heliograph.model.settings import Settings
from heliograph.model.states import PartitionState

EPILOG = "Example: heliograph status heliograph.yaml --json"
WATCH_S = 2.0


def command(
    path: ConfigArgument = None,
    config: ConfigOption = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again every two seconds.")] = False,
    form: output.FormatOption = output.Format.table,
    as_json: output.JsonOption = False,
    _level: logs.LevelOption = None,
    _log_format: logs.LogFormatOption = None,
) -> None:
    """Show lag and state of every partition; right whether or not a mirror runs.

    Exit 1 if one is stopped, 3 if a cluster is away: then what a running mirror knows is shown.
    """
    settings = read_settings(find_config(path, config))
    form = output.chosen(form, as_json)
    while True:
        document = asyncio.run(_status(settings))
        output.emit(document, form, _table)
        if not watch:
            break
        time.sleep(WATCH_S)
    away = [link for link in document["links"] if link["error"]]
    if away:
        messages = dict.fromkeys(link["error"] for link in away)
        raise ClusterUnreachable("\n".join(messages), hint=away[0]["hint"])
    if any(link["state"] == PartitionState.STOPPED for link in document["links"]):
        raise typer.Exit(1)


async def _status(settings: Settings) -> dict[str, Any]:
    from heliograph.controller.clusters import Clusters
    from heliograph.controller.ledger_sight import look_at_ledgers
    from heliograph.controller.live_socket import ask_all
    from heliograph.controller.status import status_document

    clusters = Clusters(settings)
    try:
        surveyed = await clusters.survey()
        live = await asyncio.to_thread(ask_all)
        ledgers = await look_at_ledgers(clusters, surveyed)
        warn({sight.problem for sight in ledgers.values()})
        return await status_document(surveyed, clusters, live, datetime.now(UTC), ledgers)
    finally:
        await clusters.aclose()


def warn(problems: Iterable[str | None]) -> None:
    for problem in sorted(filter(None, problems)):
        print(f"warning: {problem}", file=sys.stderr)


def _table(document: dict[str, Any]) -> Any:
    table = Table()
    for heading in (
        "link",
        "topic",
        "partition",
        "state",
        "source end",
        "next",
        "lag",
        "lag ms",
        "lane",
        "error",
    ):
        table.add_column(heading, overflow="fold")
    for link in document["links"]:
        if link["error"] and not link["partitions"]:
            table.add_row(link["link"], *"--", link["state"], *"-----", link["error"])
        for row in link["partitions"]:
            table.add_row(
                link["link"],
                row["source_topic"],
                str(row["partition"]),
                row["state"],
                *(
                    _number(row[key])
                    for key in ("source_end", "next_offset", "lag_records", "lag_ms", "lane")
                ),
                _trouble(row) or link["error"] or "",
            )
    return table


def _trouble(row: dict[str, Any]) -> str:
    return f"{row['error']}. {row['hint'] or ''}".strip() if row["error"] else ""


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
