"""`python -m heliograph.engine.make_class_archive`: makes the class-data archive of Spark's JVM, if there is none.

Starts a small Spark of its own, runs a Python task on it as a lane is one, and ends it: the JVM writes down the classes
it has loaded. Takes some 15 s and 70 MB. Prints the archive's path.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from heliograph.engine.class_archive import (
    archive_place,
    is_usable,
    options_to_make,
    spark_home,
    sum_of,
    sum_place,
)
from heliograph.engine.session import Session
from heliograph.model.errors import EngineLost, HeliographError, UsageError
from heliograph.model.occurrence_log import logged
from heliograph.model.settings import MIB, SparkSettings

ROOM_BYTES = 200 * MIB
DUMP_LIMIT_S = 120.0
KEPT = 3  # archives of other Javas and Sparks that may still be in use


def make(archive: Path, train: Callable[[Path], None]) -> bool:
    """Whether it had to be made. Whatever happens, `archive` is a whole one or what it was before."""
    try:
        archive.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _alone(archive.with_suffix(".lock")):
            if is_usable(archive):
                return False
            for left in archive.parent.glob(f"{archive.stem}.*.part"):
                left.unlink()  # of one that was killed: we hold its lock
            if shutil.disk_usage(archive.parent).free < ROOM_BYTES:
                raise _not_made(archive, f"{ROOM_BYTES // MIB} MiB of room are needed")
            _write(archive, train)
            _forget_old(archive)
    except OSError as problem:
        raise _not_made(archive, problem.strerror or str(problem)) from problem
    return True


def _write(archive: Path, train: Callable[[Path], None]) -> None:
    partial = archive.with_name(f"{archive.stem}.{os.getpid()}.part")
    try:
        train(partial)
        if not partial.is_file():
            raise _not_made(archive, "Java wrote none")
        partial.chmod(0o600)
        with partial.open("rb") as written:
            os.fsync(written.fileno())  # under its name it is always whole, after a power failure too
        sum_place(archive).write_text(sum_of(partial))
        partial.replace(archive)
    finally:
        with contextlib.suppress(OSError):  # most often: it has its name by now, or never came to be
            partial.unlink()


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """A second one waits, and then finds what the first has made."""
    with lock.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _forget_old(newest: Path) -> None:
    """A JVM that has one mapped keeps it for as long as it lives."""
    others = [path for path in newest.parent.glob("*.jsa") if path != newest]
    for old in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)[KEPT - 1 :]:
        old.unlink()
        for beside in (sum_place(old), old.with_suffix(".lock")):
            beside.unlink(missing_ok=True)


def train_spark(archive: Path) -> None:
    """Load what a lane's start loads, then end in good order: only then Java writes."""
    session = Session(SparkSettings(master="local[1]"), logged(), class_archive=options_to_make(archive))
    try:
        session.context.setJobGroup("heliograph-lane-0", "heliograph lane 0", interruptOnCancel=True)
        session.context.parallelize([0], 1).mapPartitions(_as_a_lane).collect()
    finally:
        exit_code = session.stop(jvm_end_timeout_s=DUMP_LIMIT_S)
    if exit_code:
        raise EngineLost(f"Spark's JVM ended with {exit_code} instead of writing its classes down")


def _as_a_lane(rows: Iterable[Any]) -> Iterator[str]:
    for _ in rows:
        pass
    yield "stopped by the driver"


def _not_made(archive: Path, reason: str) -> UsageError:
    return UsageError(
        f"the class-data archive {archive} was not made: {reason}",
        hint="Spark starts without it, some 2 s later; set XDG_CACHE_HOME to another place if it is the place",
    )


def main() -> int:
    archive = archive_place(spark_home())
    if archive is None:
        sys.stderr.write("this Java has no class-data archive of its own to add to: Spark starts without\n")
        return 1
    try:
        make(archive, train_spark)
    except HeliographError as problem:
        sys.stderr.write(f"{problem.message}\n{problem.hint}\n")
        return problem.exit_code
    sys.stdout.write(f"{archive}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
