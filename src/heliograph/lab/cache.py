"""Where the lab keeps what it downloads and what it runs: one directory tree of the user's.

    $XDG_CACHE_HOME/heliograph/        (~/.cache/heliograph)
    ├── kafka/<version>/libs           a broker's jars
    ├── jars/<group>/<artifact>/<version>/libs
    ├── ivy/                           Ivy's own cache; ivy.lock keeps two downloads apart
    ├── java/<version>/bin/java        the wrapper around a JRE that came as a wheel
    ├── lab/<name>/                    a named cluster: its description, logs and data
    └── bench/                         the benchmark: its mirror on franz-go; versions it compares with, while it does

Owns the names in that tree. Must not know what is put there.
"""

from __future__ import annotations

from pathlib import Path

from heliograph.model.user_cache import cache_root


def kafka_directory(version: str) -> Path:
    return cache_root() / "kafka" / version


def artifact_directory(group: str, artifact: str, version: str) -> Path:
    return cache_root() / "jars" / group / artifact / version


def ivy_directory() -> Path:
    return cache_root() / "ivy"


def ivy_lock() -> Path:
    return cache_root() / "ivy.lock"


def java_directory(version: str) -> Path:
    return cache_root() / "java" / version


def named_clusters_directory() -> Path:
    return cache_root() / "lab"


def bench_directory() -> Path:
    return cache_root() / "bench"
