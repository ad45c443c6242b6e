"""Spark's settings, as pure functions: ours, the user's over them, and what cannot work refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from heliograph.model.errors import UsageError
from heliograph.model.settings import SparkSettings

TASK_TRIES = 4  # local mode never retries a task unless told to
# A Unix socket's path has at most 108 characters, and Spark adds a name of about 45 to the directory. Without such
# sockets Python jobs start some 40 ms later, over loopback.
SOCKET_DIRECTORY_LIMIT = 60
_LOCAL = re.compile(r"local(?:\[(\*|\d+)\])?")
_LOCAL_SLOTS = re.compile(r"local(?:\[(\*|\d+)(?:, *\d+)?\])?")

_DEFAULTS = {
    "spark.app.name": "heliograph",
    "spark.driver.memory": "512m",
    "spark.scheduler.mode": "FAIR",
    "spark.task.maxFailures": str(TASK_TRIES),
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.python.task.killTimeout": "200ms",
    "spark.task.reaper.enabled": "true",
}
# The JVM only schedules lanes: the quick compiler and the small collector start it some 2 s sooner.
_LEAN_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_LOOPBACK_MASTERS = ("local", "spark://127.0.0.1", "spark://localhost", "spark://[::1]")


def master_with_retries(master: str) -> str:
    """`local[N]` as `local[N,4]`: what the user means, with task retries."""
    found = _LOCAL.fullmatch(master)
    return f"local[{found.group(1) or 1},{TASK_TRIES}]" if found else master


def local_slots(master: str, found: int) -> int | None:
    """How many tasks a local master ever runs at once; None: not local. `found`: what Spark has, for `local[*]`."""
    local = _LOCAL_SLOTS.fullmatch(master)
    if local is None:
        return None
    return found if local.group(1) == "*" else int(local.group(1) or 1)


def check_conf(conf: Mapping[str, str]) -> None:
    if conf.get("spark.speculation", "false").strip().lower() == "true":
        raise UsageError(
            "spark.conf: spark.speculation=true would run a second copy of a lane beside the first: two copiers of"
            " one partition",
            hint="remove spark.speculation: a lane never ends by itself, so Spark would take it for slow",
        )


def conf_for(settings: SparkSettings, directory: Path) -> dict[str, str]:
    """All Spark properties: ours, then the user's over them."""
    own = {
        **_DEFAULTS,
        "spark.master": master_with_retries(settings.master),
        "spark.local.dir": str(directory),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.driver.extraJavaOptions": f"{_LEAN_JVM} -Djava.io.tmpdir={directory}"
        f" -Dlog4j2.configurationFile={directory / 'log4j2.properties'}",
    }
    if len(str(directory)) > SOCKET_DIRECTORY_LIMIT:
        own["spark.python.unix.domain.socket.enabled"] = "false"
    if settings.master.startswith(_LOOPBACK_MASTERS):
        own |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return own | dict(settings.conf)
