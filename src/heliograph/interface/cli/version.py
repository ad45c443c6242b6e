"""`heliograph version`: what is installed, without importing any of it."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed

from rich.table import Table

from heliograph import __version__
from heliograph.interface.cli import output

EPILOG = "Example: heliograph version --json"


def command(form: output.FormatOption = output.Format.table, as_json: output.JsonOption = False) -> None:
    """Show the versions of heliograph and of what it runs on."""
    output.emit(_versions(), output.chosen(form, as_json), _table)


def _versions() -> dict[str, str | None]:
    return {
        "heliograph": __version__,
        "python": platform.python_version(),
        "pyspark": _of("pyspark"),
        "kafka-python": _of("kafka-python"),
    }


def _of(distribution: str) -> str | None:
    try:
        return installed(distribution)
    except PackageNotFoundError:
        return None


def _table(versions: dict[str, str | None]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, version in versions.items():
        table.add_row(name, version or "not installed")
    return table
