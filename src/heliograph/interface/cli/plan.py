"""`heliograph plan`: what `run` would do, without doing it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from heliograph.controller.build_settings import KEEP_OFF
from heliograph.interface.cli import logs, output
from heliograph.interface.cli.config_path import ConfigArgument, ConfigOption
from heliograph.interface.config_file import find_config, read_settings
from heliograph.model.admission import Refused
from heliograph.model.hints import hint_for
from heliograph.model.link import Link
from heliograph.model.partition import MirrorPartition
from heliograph.model.policy import LinkPolicy
from heliograph.model.settings import Caution, Settings
from heliograph.model.states import BuildPhase

if TYPE_CHECKING:
    from heliograph.controller.gap_filling import GapFilling
    from heliograph.controller.plan import AwaitPartition, PausePartition, Plan

_WORDS = {"refused": "refuse", "pending": "wait", "paused": "leave"}
EPILOG = "Example: heliograph plan heliograph.yaml --check"


def command(
    path: ConfigArgument = None,
    config: ConfigOption = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Exit 1 if a topic would be created, or a partition is pending or refused."
        ),
    ] = False,
    form: output.FormatOption = output.Format.table,
    as_json: output.JsonOption = False,
    _level: logs.LevelOption = None,
    _log_format: logs.LogFormatOption = None,
) -> None:
    """Show which topics would be created and which partitions copied, left pending or refused, and why."""
    settings = read_settings(find_config(path, config))
    document = asyncio.run(_planned(settings))
    output.emit(document, output.chosen(form, as_json), table_of)
    if check and (document["create"] or any(p["refused"] or p["pending"] for p in document["partitions"])):
        raise typer.Exit(1)


async def _planned(settings: Settings) -> dict[str, Any]:
    from heliograph.controller.beginnings import resolve_beginnings
    from heliograph.controller.built_groups import warn_of_groups
    from heliograph.controller.clusters import Clusters
    from heliograph.controller.ledger_sight import look_at_ledgers
    from heliograph.controller.plan import plan

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
        planned = replace(
            begun.todo, warnings=(*begun.todo.warnings, *(each for some in groups for each in some))
        )
        gaps = {s.link.name: s.gaps.with_measured(recorded[s.link.name].rate(s.link.name)) for s in snapshots}
        return document_of(planned, settings.links, gaps, settings.cautions)
    finally:
        await clusters.aclose()


def document_of(
    planned: Plan, links: Sequence[Link], gaps: Mapping[str, GapFilling], cautions: Sequence[Caution] = ()
) -> dict[str, Any]:
    """`gaps`: by link, how they will be filled. `cautions`: of the config."""
    policy_of = {link.name: link.policy_of for link in links}

    def row(
        partition: MirrorPartition,
        *,
        refused: Refused | None = None,
        awaited: AwaitPartition | None = None,
        paused: PausePartition | None = None,
        build: BuildPhase | None = None,
        **seen: int | None,
    ) -> Any:
        hint = hint_for(partition, refused.hint) if refused else awaited.command if awaited else None
        return {
            "link": partition.link,
            "source_topic": partition.source_topic,
            "target_topic": partition.target_topic,
            "partition": partition.partition,
            "next_offset": seen.get("next_offset"),
            "align_to": seen.get("align_to"),
            "backlog": seen.get("backlog"),
            "policy": policy_of[partition.link](partition.source_topic).texts(),
            "refused": refused.message if refused else None,
            "pending": awaited.why if awaited else None,
            "paused": paused.words if paused else None,
            "build": str(build) if build else None,
            "hint": hint,
        }

    return {
        "links": [_link_of(link, gaps[link.name]) for link in links],
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
            *(
                row(
                    c.spec.partition,
                    build=BuildPhase.FILLING if c.spec.builds else None,
                    next_offset=c.next_offset,
                    backlog=c.backlog,
                    align_to=c.align_to,
                )
                for c in planned.copies
            ),
            *(
                row(a.partition, awaited=a, next_offset=0, backlog=a.backlog, align_to=a.align_to)
                for a in planned.awaited
            ),
            *(row(p.partition, paused=p, next_offset=p.next_offset) for p in planned.paused),
            *(
                row(c.partition, build=BuildPhase.CLEANING, next_offset=c.next_offset)
                for c in planned.cleaning
            ),
            *(row(r.partition, refused=r.why) for r in planned.refusals),
        ],
        "warnings": [*map(str, cautions), *planned.warnings],
    }


def _link_of(link: Link, filling: GapFilling) -> dict[str, Any]:
    return {
        "link": link.name,
        "source": link.source,
        "target": link.target,
        "gaps": {
            "way": filling.way.value,
            "granted": filling.granted.name if filling.granted else None,
            "offsets_per_s": filling.measured.offsets_per_s if filling.measured else None,
            "measured_at": filling.measured.at if filling.measured else None,
            "text": str(filling),
        },
    }


def table_of(document: dict[str, Any]) -> Any:
    created = {(c["link"], c["topic"]) for c in document["create"]}
    table = Table()
    # A column for policies only where one of them is not the default: most tables have none.
    policies = any(_differences(row) for row in document["partitions"])
    headings = ("link", "source topic", "target topic", "partition", "do", "from", "records")
    for heading in (*headings, "policy") if policies else headings:
        table.add_column(heading, overflow="fold")
    for row in document["partitions"]:
        new = (row["link"], row["target_topic"]) in created
        table.add_row(
            row["link"],
            row["source_topic"],
            row["target_topic"],
            str(row["partition"]),
            _action(row, new=new),
            "" if row["next_offset"] is None else f"{max(row['next_offset'], row['align_to'] or 0):,}",
            "" if row["backlog"] is None else f"{row['backlog']:,}",
            *([_differences(row)] if policies else []),
        )
    ways = [Text(f"link {each['link']}: gaps: {each['gaps']['text']}") for each in document["links"]]
    return Group(table, *ways, *(Text(f"warning: {w}") for w in document["warnings"]))


def _action(row: dict[str, Any], *, new: bool) -> str:
    for word, does in _WORDS.items():
        if row[word]:
            return f"{does}: {row[word]}. {row['hint'] or ''}".strip()
    steps = ["create"] if new else []
    if row["align_to"] is not None:
        steps.append(f"align to {row['align_to']:,}")
    if row["build"]:
        built = "build" if row["build"] == BuildPhase.FILLING else "let brokers remove fillers"
        steps.append(f"{built} (compacted: {KEEP_OFF})")
    return ", ".join([*steps, "copy"])


def _differences(row: dict[str, Any]) -> str:
    """What this topic does otherwise than by default, in the config's words."""
    chosen = LinkPolicy.from_texts(row["policy"]).differences()
    return ", ".join(f"{key}: {value}" for key, value in chosen.items())
