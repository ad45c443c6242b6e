"""Files that secure connections, on a machine that may have them elsewhere: Spark ships files to its executors.

Owns the rule: a path is meant as it is written; where nothing is there, a shipped file of the same name stands for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from heliograph.cluster.security.file_paths import with_paths


def with_shipped_files(properties: Mapping[str, str], directory: Path) -> dict[str, str]:
    """`directory`: where what was shipped is."""

    def found(path: str) -> str:
        shipped = directory / Path(path).name
        return path if Path(path).exists() or not shipped.is_file() else str(shipped)

    return with_paths(properties, found)
