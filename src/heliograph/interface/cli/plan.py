"""`heliograph plan`: what `run` would do, without doing it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from heliograph.interface.cli import logs, output
from heliograph.interface.cli.config_path import ConfigArgument, ConfigOption
from heliograph.interface.cli.plan_table import table_of
from heliograph.interface.cli.row_options import (
    AllOption,
    LaggingOption,
    StateOption,
    TopicOption,
    chosen_rows,
)
from heliograph.interface.config_file import find_config, read_settings
from heliograph.model.partition_filter import PartitionFilter
from heliograph.model.settings import Settings

EPILOG = "Example: heliograph plan heliograph.yaml --check"


def command(
    path: ConfigArgument = None,
    config: ConfigOption = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Exit 1 if there is anything to do: to create, to begin, or to mend; 0 if all is in step.",
        ),
    ] = False,
    topic: TopicOption = None,
    state: StateOption = None,
    lagging: LaggingOption = False,
    all_rows: AllOption = False,
    form: output.FormatOption = output.Format.table,
    as_json: output.JsonOption = False,
    _level: logs.LevelOption = None,
    _log_format: logs.LogFormatOption = None,
) -> None:
    """Show which topics would be created and which partitions copied, left pending or refused, and why.

    --topic also says what --check asks about; --state and --lagging choose only what is listed.
    """
    settings = read_settings(find_config(path, config))
    shown = chosen_rows(settings.links, topic, state, lagging=lagging)
    document = _planned(settings, shown)
    output.emit(document, output.chosen(form, as_json), lambda each: table_of(each, all_rows=all_rows))
    if check and document["to_do"]:
        raise typer.Exit(1)


# -- what tests play


def _planned(settings: Settings, shown: PartitionFilter) -> dict[str, Any]:
    return asyncio.run(_plan(settings, shown))


# --


async def _plan(settings: Settings, shown: PartitionFilter) -> dict[str, Any]:
    from heliograph.controller.beginnings import resolve_beginnings
    from heliograph.controller.built_groups import warn_of_groups
    from heliograph.controller.clusters import Clusters
    from heliograph.controller.config_refusals import warn_of_refusals
    from heliograph.controller.half_built import warn_of_half_built
    from heliograph.controller.ledger_sight import look_at_ledgers
    from heliograph.controller.plan import plan
    from heliograph.controller.plan_document import plan_document

    clusters = Clusters(settings)
    try:
        await clusters.connect()
        snapshots = await clusters.observe()
        ledgers = await look_at_ledgers(clusters, snapshots)
        recorded = {link: sight.recorded for link, sight in ledgers.items()}
        findings = await clusters.preflight(snapshots, recorded)
        planned = plan(snapshots, findings, recorded_of=lambda seen: recorded[seen.link.name])
        kept = {link: sight.at_first for link, sight in ledgers.items()}
        ids = {seen.link.name: seen.source_topic_ids for seen in snapshots}
        begun = await resolve_beginnings(clusters.source, planned, kept, ids, datetime.now(UTC))
        groups = [await warn_of_groups(clusters.target(seen.link.name), seen) for seen in snapshots]
        gone = [
            await warn_of_half_built(clusters.target(s.link.name), s, recorded[s.link.name])
            for s in snapshots
        ]
        refused = [
            await warn_of_refusals(
                clusters.target(seen.link.name),
                [each for each in planned.config_changes if each.link == seen.link.name],
            )
            for seen in snapshots
        ]
        more = [each for some in (*groups, *gone, *refused) for each in some]
        planned = replace(begun.todo, warnings=(*begun.todo.warnings, *more))
        gaps = {s.link.name: s.gaps.with_measured(recorded[s.link.name].rate(s.link.name)) for s in snapshots}
        return plan_document(planned, settings.links, gaps, settings.cautions, shown)
    finally:
        await clusters.aclose()
