"""`heliograph status`: how every link stands, from both clusters and from a running mirror if there is one."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from heliograph.interface.cli import logs, output
from heliograph.interface.cli.config_path import ConfigArgument, ConfigOption
from heliograph.interface.cli.row_options import (
    AllOption,
    LaggingOption,
    StateOption,
    TopicOption,
    chosen_rows,
)
from heliograph.interface.cli.row_table import (
    Row,
    number,
    rows_of_links,
    summary_line,
    table_of_rows,
    with_hint,
)
from heliograph.interface.config_file import find_config, read_settings
from heliograph.model.errors import ClusterUnreachable
from heliograph.model.link_status import RoleName
from heliograph.model.partition_filter import PartitionFilter
from heliograph.model.settings import Settings
from heliograph.model.states import PartitionState

EPILOG = "Example: heliograph status heliograph.yaml --json"
WATCH_S = 2.0


def command(
    path: ConfigArgument = None,
    config: ConfigOption = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again every two seconds.")] = False,
    topic: TopicOption = None,
    state: StateOption = None,
    lagging: LaggingOption = False,
    all_rows: AllOption = False,
    form: output.FormatOption = output.Format.table,
    as_json: output.JsonOption = False,
    _level: logs.LevelOption = None,
    _log_format: logs.LogFormatOption = None,
) -> None:
    """Show lag and state of links and partitions; right whether or not a mirror runs.

    Exit 1 if a partition is stopped, 3 if a cluster is away: then what a running mirror knows is shown.

    --topic also says which partitions that is about; --state and --lagging choose only what is listed.
    """
    settings = read_settings(find_config(path, config))
    shown = chosen_rows(settings.links, topic, state, lagging=lagging)
    form = output.chosen(form, as_json)
    while True:
        document = _seen(settings, shown)
        output.emit(document, form, lambda each: table_of(each, all_rows=all_rows))
        if not watch:
            break
        time.sleep(WATCH_S)
    away = [link for link in document["links"] if link["error"]]
    if away:
        messages = dict.fromkeys(link["error"] for link in away)
        raise ClusterUnreachable("\n".join(messages), hint=away[0]["hint"])
    if any(link["state"] == PartitionState.STOPPED for link in document["links"]):
        raise typer.Exit(1)


# -- what tests play


def _seen(settings: Settings, shown: PartitionFilter) -> dict[str, Any]:
    return asyncio.run(_status(settings, shown))


# --


async def _status(settings: Settings, shown: PartitionFilter) -> dict[str, Any]:
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
        return await status_document(surveyed, clusters, live, datetime.now(UTC), ledgers, shown)
    finally:
        await clusters.aclose()


def warn(problems: Iterable[str | None]) -> None:
    for problem in sorted(filter(None, problems)):
        print(f"warning: {problem}", file=sys.stderr)


_HEADINGS = ("link", "topic", "partition", "state", "source end", "next", "lag", "lag ms", "lane", "error")
_NUMBERS = ("source_end", "next_offset", "lag_records", "lag_ms", "lane")


def table_of(document: dict[str, Any], *, all_rows: bool = False) -> RenderableType:
    summary = [_summary(link) for link in document["links"]]
    return table_of_rows(summary, _HEADINGS, rows_of_links(document["links"]), _cells, all_rows=all_rows)


def _summary(link: Row) -> str:
    late = [f"the first record that is not copied is {link['lag_ms']:,} ms old"] if link["lag_ms"] else []
    standby = [link["state"]] if link["state"] == RoleName.STANDBY else []
    waits = [link["waits"]] if link["waits"] else []
    away = [with_hint(link["error"], link["hint"])] if link["error"] else []
    return summary_line(link["link"], link["summary"], *late, *standby, *waits, *away)


def _cells(row: Row) -> list[str]:
    return [
        row["link"],
        row["source_topic"],
        str(row["partition"]),
        row["state"],
        *(number(row[key]) for key in _NUMBERS),
        with_hint(row["error"], row["hint"]),
    ]
