"""`heliograph lab up|down|status`: real Kafka clusters on this machine that stay until taken down."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.table import Table

from heliograph.interface.cli import logs, output
from heliograph.lab import registry
from heliograph.lab.jars import DEFAULT_KAFKA
from heliograph.model.errors import UsageError

DEFAULT_NAME = "lab"

app = typer.Typer(
    no_args_is_help=True,
    help="Run real Kafka clusters on this machine, for trying things out.",
    epilog="Example: heliograph lab up sf nyc && heliograph lab status && heliograph lab down",
)


@app.command(
    epilog="Example: heliograph lab up sf nyc --brokers 3 --kafka 3.9.1 --property log.segment.bytes=1048576"
)
def up(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Clusters to start.")] = None,
    brokers: Annotated[int, typer.Option(min=1, help="Brokers in each cluster.")] = 1,
    kafka: Annotated[
        str, typer.Option(help="Released Kafka version, from 0.8.2.2 on; before 3.3 with a ZooKeeper.")
    ] = DEFAULT_KAFKA,
    properties: Annotated[
        list[str] | None, typer.Option("--property", metavar="KEY=VALUE", help="Broker property; repeatable.")
    ] = None,
    form: output.FormatOption = output.Format.table,
    as_json: output.JsonOption = False,
    _level: logs.LevelOption = None,
    _log_format: logs.LogFormatOption = None,
) -> None:
    """Start clusters, `lab` if none is named, and print where they listen. All of them come up or none."""
    settings = _properties(properties or [])
    started: list[registry.ClusterStatus] = []
    try:
        for name in names or [DEFAULT_NAME]:
            started.append(registry.bring_up(name, brokers=brokers, kafka=kafka, properties=settings))
    except BaseException:  # also Ctrl-C: half of what was asked for must not stay behind unsaid
        for cluster in started:
            registry.bring_down(cluster.name)
        raise
    output.emit(_plain(started), output.chosen(form, as_json), _table)


@app.command(epilog="Example: heliograph lab down sf")
def down(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Clusters to end.")] = None,
    form: output.FormatOption = output.Format.table,
    as_json: output.JsonOption = False,
    _level: logs.LevelOption = None,
    _log_format: logs.LogFormatOption = None,
) -> None:
    """End clusters, all of the lab's if none is named, and remove their data."""
    wanted = names or registry.names()
    for name in wanted:
        registry.bring_down(name)
    output.emit({"ended": wanted}, output.chosen(form, as_json), _ended)


@app.command(epilog="Example: heliograph lab status --json")
def status(
    form: output.FormatOption = output.Format.table,
    as_json: output.JsonOption = False,
    _level: logs.LevelOption = None,
    _log_format: logs.LogFormatOption = None,
) -> None:
    """List the lab's clusters and whether they run."""
    found = [registry.status(name) for name in registry.names()]
    output.emit(_plain(found), output.chosen(form, as_json), _table)


def _properties(given: list[str]) -> dict[str, str]:
    wrong = [each for each in given if not each.partition("=")[0].strip() or "=" not in each]
    if wrong:
        raise UsageError(f"not KEY=VALUE: {', '.join(wrong)}", hint="--property log.segment.bytes=1048576")
    pairs = (each.partition("=") for each in given)
    return {key.strip(): value for key, _, value in pairs}


def _plain(clusters: list[registry.ClusterStatus]) -> list[dict[str, Any]]:
    # A list in a list, not a tuple: YAML has no tuples.
    return [
        {**asdict(cluster), "brokers": [asdict(each) for each in cluster.brokers]} for cluster in clusters
    ]


def _table(clusters: list[dict[str, Any]]) -> RenderableType:
    if not clusters:
        return "no clusters; start one: heliograph lab up"
    table = Table("name", "state", "bootstrap servers", "kafka", "pids", box=None, pad_edge=False)
    for cluster in clusters:
        pids = ",".join(str(each["pid"]) for each in cluster["brokers"])
        table.add_row(cluster["name"], cluster["state"], cluster["bootstrap_servers"], cluster["kafka"], pids)
    return table


def _ended(report: dict[str, list[str]]) -> str:
    return f"ended: {', '.join(report['ended'])}" if report["ended"] else "no clusters to end"
