"""`heliograph pack`: this environment as one file, for executors that do not have it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from heliograph.interface.cli import logs, output

EPILOG = "Example: heliograph pack heliograph-env.tar.gz"
DEFAULT_PATH = Path("heliograph-env.tar.gz")
FOLDER = "environment"


def command(
    path: Annotated[
        Path, typer.Argument(metavar="[FILE]", help="The archive to write.", show_default=True)
    ] = DEFAULT_PATH,
    form: output.FormatOption = output.Format.table,
    as_json: output.JsonOption = False,
    _level: logs.LevelOption = None,
    _log_format: logs.LogFormatOption = None,
) -> None:
    """Make an archive of this Python environment that `run` ships to a Spark cluster by spark.archives."""
    result = pack(path)
    output.emit(result, output.chosen(form, as_json), _sentences)


def pack(path: Path) -> dict[str, Any]:
    from heliograph.engine.environment_archive import archive_place, write_archive
    from heliograph.engine.environment_files import environment_files
    from heliograph.engine.versions import versions

    place = archive_place(path)
    found = versions()
    print("heliograph pack: looking for what lanes need", file=sys.stderr)
    files = environment_files()
    sizes = {file.name: file.path.stat().st_size for file in files}
    print(
        f"heliograph pack: {len(files):,} files, {sum(sizes.values()) / 1e6:,.0f} MB, into {path}",
        file=sys.stderr,
    )
    with _progress(sum(sizes.values())) as advance:
        size_bytes = write_archive(place, files, found, lambda file: advance(sizes[file.name]))
    return {
        "archive": str(path),
        "size_bytes": size_bytes,
        "files": len(files),
        "versions": found,
        "spark_conf": {"spark.archives": f"{path}#{FOLDER}"},
    }


@contextmanager
def _progress(total_bytes: int) -> Iterator[Callable[[int], None]]:
    """A bar in a terminal, on stderr; elsewhere a line at every quarter."""
    if not sys.stderr.isatty():
        yield _Quarters(total_bytes).advance
        return
    columns = (TextColumn("packing"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("packing", total=total_bytes)
        yield lambda size_bytes: bar.advance(task, size_bytes)


class _Quarters:
    def __init__(self, total_bytes: int) -> None:
        self._total_bytes = max(total_bytes, 1)
        self._done_bytes = 0

    def advance(self, size_bytes: int) -> None:
        before = 4 * self._done_bytes // self._total_bytes
        self._done_bytes += size_bytes
        after = 4 * self._done_bytes // self._total_bytes
        if after > before:
            print(f"heliograph pack: {25 * after} %", file=sys.stderr)


def _sentences(result: dict[str, Any]) -> str:
    (archives,) = result["spark_conf"].values()
    return (
        f"{result['archive']}: {result['size_bytes'] / 1e6:,.0f} MB\n"
        "to ship it, in heliograph.yaml:\n"
        "  spark:\n"
        f'    conf: {{spark.archives: "{archives}"}}'
    )
