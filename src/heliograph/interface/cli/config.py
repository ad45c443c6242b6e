"""`heliograph config example|validate|schema`: everything about the config file but using it."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from heliograph.interface.cli import logs, output
from heliograph.interface.cli.config_path import ConfigArgument, ConfigOption
from heliograph.interface.config.example import EXAMPLE
from heliograph.interface.config.schema import Document
from heliograph.interface.config.security_examples import SECURITY_EXAMPLES, SecuredBy
from heliograph.interface.config_file import find_config, read_settings
from heliograph.model.errors import ConfigError

app = typer.Typer(
    no_args_is_help=True,
    help="Write, check and describe heliograph.yaml.",
    epilog="Example: heliograph config example > heliograph.yaml",
)


@app.command(epilog="Example: heliograph config example --for scram > heliograph.yaml")
def example(
    secured_by: Annotated[
        SecuredBy | None,
        typer.Option(
            "--for",
            metavar="NAME",
            help=f"A short one for clusters that are secured by {', '.join(SecuredBy)}.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Print a commented heliograph.yaml with every key that works, or a short one for secured clusters."""
    sys.stdout.write(SECURITY_EXAMPLES[secured_by] if secured_by else EXAMPLE)


@app.command(epilog="Example: heliograph config validate heliograph.yaml -o json")
def validate(
    path: ConfigArgument = None,
    config: ConfigOption = None,
    form: output.FormatOption = output.Format.table,
    as_json: output.JsonOption = False,
    _level: logs.LevelOption = None,
    _log_format: logs.LogFormatOption = None,
) -> None:
    """Check a config file; show all its problems at once."""
    found = find_config(path, config)
    form = output.chosen(form, as_json)
    try:
        settings = read_settings(found)
    except ConfigError as error:
        if form is output.Format.table:
            raise
        output.emit(_report(str(found), error.problems), form, str)
        raise typer.Exit(error.exit_code) from None
    report = _report(str(found), ()) | {
        "warnings": list(map(str, settings.cautions)),
        "clusters": list(settings.clusters),
        "links": [link.name for link in settings.links],
    }
    output.emit(report, form, _sentence)


@app.command(epilog="Example: heliograph config schema > heliograph.schema.json")
def schema() -> None:
    """Print the JSON schema of heliograph.yaml, for editors."""
    sys.stdout.write(json.dumps(Document.model_json_schema(), indent=2) + "\n")


def _report(path: str, problems: tuple[str, ...]) -> dict[str, Any]:
    return {"config": path, "valid": not problems, "problems": list(problems)}


def _sentence(report: dict[str, Any]) -> str:
    clusters, links = _names(report["clusters"]), _names(report["links"])
    warnings = [f"warning: {each}" for each in report["warnings"]]
    return "\n".join([*warnings, f"{report['config']} is valid: clusters {clusters}; links {links}"])


def _names(names: list[str]) -> str:
    return ", ".join(names)
