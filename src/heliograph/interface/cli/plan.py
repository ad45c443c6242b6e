"""`heliograph plan`: what `run` would do, without doing it."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from heliograph.interface.cli import logs, output
from heliograph.interface.cli.config_path import ConfigArgument, ConfigOption
from heliograph.interface.config_file import find_config, read_settings
from heliograph.model.settings import Settings

EPILOG = "Example: heliograph plan heliograph.yaml --check"


def command(
    path: ConfigArgument = None,
    config: ConfigOption = None,
    check: Annotated[
        bool, typer.Option("--check", help="Exit 1 if a topic would be created or a partition is refused.")
    ] = False,
    form: output.FormatOption = output.Format.table,
    as_json: output.JsonOption = False,
    _level: logs.LevelOption = None,
    _log_format: logs.LogFormatOption = None,
) -> None:
    """Show which topics would be created and which partitions copied or refused, and why."""
    settings = read_settings(find_config(path, config))
    document = asyncio.run(_planned(settings))
    output.emit(document, output.chosen(form, as_json), _table)
    if check and (document["create"] or any(p["refused"] for p in document["partitions"])):
        raise typer.Exit(1)


async def _planned(settings: Settings) -> dict[str, Any]:
    from heliograph.controller.clusters import Clusters
    from heliograph.controller.plan import plan

    clusters = Clusters(settings)
    try:
        await clusters.connect()
        snapshots = await clusters.observe()
        return _document(plan(snapshots, await clusters.preflight(snapshots)))
    finally:
        await clusters.aclose()


def _document(planned: Any) -> dict[str, Any]:
    return {
        "create": [
            {
                "link": creation.link,
                "topic": creation.topic,
                "partitions": creation.shape.partitions,
                "replication_factor": creation.shape.replication_factor,
                "configs": dict(creation.shape.configs),
            }
            for creation in planned.creations
        ],
        "partitions": [
            *(_row(c.spec.partition, c.next_offset, c.backlog, None) for c in planned.copies),
            *(_row(r.partition, None, None, r.why) for r in planned.refusals),
        ],
        "warnings": list(planned.warnings),
    }


def _row(partition: Any, next_offset: int | None, backlog: int | None, refused: Any) -> dict[str, Any]:
    return {
        "link": partition.link,
        "source_topic": partition.source_topic,
        "target_topic": partition.target_topic,
        "partition": partition.partition,
        "next_offset": next_offset,
        "backlog": backlog,
        "refused": refused.message if refused else None,
        "hint": refused.hint if refused else None,
    }


def _table(document: dict[str, Any]) -> Any:
    created = {(c["link"], c["topic"]) for c in document["create"]}
    table = Table()
    for heading in ("link", "source topic", "target topic", "partition", "do", "from", "records"):
        table.add_column(heading, overflow="fold")
    for row in document["partitions"]:
        new = (row["link"], row["target_topic"]) in created
        action = "create, copy" if new else "copy"
        table.add_row(
            row["link"],
            row["source_topic"],
            row["target_topic"],
            str(row["partition"]),
            f"refuse: {row['refused']}. {row['hint']}" if row["refused"] else action,
            "" if row["next_offset"] is None else f"{row['next_offset']:,}",
            "" if row["backlog"] is None else f"{row['backlog']:,}",
        )
    return Group(table, *(Text(f"warning: {w}") for w in document["warnings"]))
