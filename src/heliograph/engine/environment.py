"""The environment of the lanes: which interpreter they run, and whether the archive that is shipped is the driver's.

Owns that choice. Must not know how an archive is made, nor Spark itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from heliograph.engine.environment_archive import INTERPRETER, read_manifest
from heliograph.engine.spark_conf import is_local
from heliograph.engine.versions import differences, versions
from heliograph.model.errors import UsageError
from heliograph.model.settings import SparkSettings

ARCHIVES = "spark.archives"
_PATTERN_SIGNS = frozenset("*?[{")


def lane_python(settings: SparkSettings) -> str:
    """The one the user named, else the one in a packed environment that is shipped, else the driver's own."""
    if is_local(settings.master):
        return settings.python or sys.executable
    shipped = shipped_python(settings.conf)
    return settings.python or shipped or sys.executable


def shipped_python(conf: Mapping[str, str]) -> str | None:
    """The interpreter in the first archive that `heliograph pack` made, as executors see it.

    An archive of another Heliograph is refused: its lanes could not work for this driver.
    """
    for path, folder in _archives(conf.get(ARCHIVES, "")):
        packed = _manifest(path)
        if packed is None:
            continue
        stale = differences(versions(), packed)
        if stale is not None:
            raise UsageError(
                f"spark.conf: {ARCHIVES}: {path} is of another environment: {stale}",
                hint=f"pack it again: heliograph pack {path}",
            )
        return f"./{folder}/{INTERPRETER}"
    return None


def _archives(value: str) -> Iterator[tuple[Path, str]]:
    """Files of this machine, each with the folder that Spark unpacks it to. What is elsewhere cannot be looked into."""
    for entry in filter(None, (part.strip() for part in value.split(","))):
        place, _, folder = entry.partition("#")
        parts = urlsplit(place)
        if parts.scheme in ("", "file") and not _PATTERN_SIGNS & set(place):
            yield Path(parts.path), folder or Path(parts.path).name


def _manifest(path: Path) -> dict[str, str] | None:
    try:
        return read_manifest(path)
    except OSError as problem:
        raise UsageError(
            f"spark.conf: {ARCHIVES}: cannot read {path}: {problem.strerror}",
            hint=f"make it: heliograph pack {path}",
        ) from problem
