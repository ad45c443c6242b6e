"""Spark's settings, as pure functions: ours, the user's over them, and what cannot work refused."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from heliograph.model.errors import UsageError
from heliograph.model.settings import DEFAULT_LANE_MEMORY_BYTES, MIB, SparkSettings

SPARE_SLOTS = 1  # lanes never end: Spark must still be able to run something else
TASK_TRIES = 4  # local mode never retries a task unless told to
# A Unix socket's path has at most 108 characters, and Spark adds a name of about 45 to the directory. Without such
# sockets Python jobs start some 40 ms later, over loopback.
SOCKET_DIRECTORY_LIMIT = 60
_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:, *(\d+))?\])?")

_DEFAULTS = {
    "spark.app.name": "heliograph",
    "spark.driver.memory": "512m",
    "spark.scheduler.mode": "FAIR",
    "spark.task.maxFailures": str(TASK_TRIES),
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "heliograph.engine.lane_daemon",
    "spark.python.task.killTimeout": "200ms",
    "spark.task.reaper.enabled": "true",
}
# The JVM only schedules lanes: the quick compiler and the small collector start it some 2 s sooner.
_LEAN_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_LOOPBACK_MASTERS = ("local", "spark://127.0.0.1", "spark://localhost", "spark://[::1]")
PYTHON_BASE_BYTES = 150 * MIB  # a lane's Python with all its libraries and no buffers
_OVERHEAD = "spark.executor.memoryOverhead"
# What Spark would add for the executor's JVM by itself; a number of ours replaces it.
_JVM_OVERHEAD_LEAST_BYTES = 384 * MIB
_JVM_OVERHEAD_SHARE = 10
_SIZE = re.compile(r"(\d+)([kmgt]?)b?", re.IGNORECASE)
_UNITS = {"k": 1024, "": MIB, "m": MIB, "g": 1024 * MIB, "t": 1024 * 1024 * MIB}


def local_master(master: str, cores: int) -> str:
    """`local[N]` as `local[N+1,4]`: what the user means, with task retries, and a slot that no lane takes."""
    found = _LOCAL.fullmatch(master)
    if found is None:
        return master
    lanes = cores if found.group(1) == "*" else int(found.group(1) or 1)
    return f"local[{lanes + SPARE_SLOTS},{found.group(2) or TASK_TRIES}]"


def local_slots(master: str, found: int) -> int | None:
    """How many tasks a local master ever runs at once; None: not local. `found`: what Spark has, for `local[*]`."""
    local = _LOCAL.fullmatch(master)
    if local is None:
        return None
    return found if local.group(1) == "*" else int(local.group(1) or 1)


def is_local(master: str) -> bool:
    """Whether lanes run in processes of the driver's own."""
    return _LOCAL.fullmatch(master) is not None


def check_conf(conf: Mapping[str, str]) -> None:
    """Before Spark starts, of what the user wrote; and after, of what it found elsewhere."""
    if "spark.executor.pyspark.memory" in conf:
        raise UsageError(
            "spark.executor.pyspark.memory limits the address space of a lane's process, not its memory:"
            " libraries that only reserve space are refused it, and the lane dies",
            hint="remove it from spark.conf or spark-defaults.conf: lane_memory bounds a lane's buffers, and"
            f" {_OVERHEAD} is set from it",
        )
    if _is_on(conf, "spark.speculation"):
        raise UsageError(
            "spark.speculation=true would run a second copy of a lane beside the first: two copiers of one partition",
            hint="remove it from spark.conf or spark-defaults.conf: a lane never ends by itself, so Spark would take it"
            " for slow",
        )


def overhead_for(conf: Mapping[str, str], lane_memory_bytes: int) -> str:
    """Memory of an executor beside its heap: Spark's own share of it, and the lanes that may run there at once."""
    cores, cpus = (_count(conf.get(key)) for key in ("spark.executor.cores", "spark.task.cpus"))
    lanes = max(cores // cpus, 1)
    heap_bytes = _size_bytes(conf.get("spark.executor.memory", "1g"))
    jvm_bytes = max(heap_bytes // _JVM_OVERHEAD_SHARE, _JVM_OVERHEAD_LEAST_BYTES)
    return f"{-(-(jvm_bytes + lanes * (lane_memory_bytes + PYTHON_BASE_BYTES)) // MIB)}m"


def _count(text: str | None) -> int:
    """1 is Spark's default, and whatever is no number Spark refuses in its own words."""
    return max(int(text), 1) if text is not None and text.strip().isdecimal() else 1


def _size_bytes(text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    return int(found.group(1)) * _UNITS[found.group(2).lower()] if found else 0


def network_warning(settings: SparkSettings) -> str | None:
    """What to know before lanes run on a Spark that anybody may talk to."""
    if is_local(settings.master) or _is_on(settings.conf, "spark.authenticate"):
        return None
    return (
        "spark.authenticate is off: whoever reaches a port of this Spark can run code as its user, pose as an executor"
        " and be given a lane, with the properties and passwords of the Kafka clusters. Turn it on in spark.conf"
        " (spark.authenticate: true, spark.network.crypto.enabled: true; on a standalone cluster also"
        " spark.authenticate.secret, the same on its master and workers), or keep others off the network"
    )


def _is_on(conf: Mapping[str, str], key: str) -> bool:
    return conf.get(key, "false").strip().lower() == "true"


def conf_for(
    settings: SparkSettings,
    directory: Path,
    lane_memory_bytes: int = DEFAULT_LANE_MEMORY_BYTES,
    class_archive: str = "",
) -> dict[str, str]:
    """All Spark properties: ours, then the user's over them. `class_archive`: the JVM's options about one."""
    own = {
        **_DEFAULTS,
        "spark.master": local_master(settings.master, len(os.sched_getaffinity(0))),
        "spark.local.dir": str(directory),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.driver.extraJavaOptions": f"{_LEAN_JVM} -Djava.io.tmpdir={directory}"
        f" -Dlog4j2.configurationFile={directory / 'log4j2.properties'} {class_archive}".rstrip(),
    }
    if len(str(directory)) > SOCKET_DIRECTORY_LIMIT:
        own["spark.python.unix.domain.socket.enabled"] = "false"
    if settings.master.startswith(_LOOPBACK_MASTERS):
        own |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if not is_local(settings.master) and f"{_OVERHEAD}Factor" not in settings.conf:
        own[_OVERHEAD] = overhead_for(settings.conf, lane_memory_bytes)
    return own | dict(settings.conf)
