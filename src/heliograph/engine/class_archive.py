"""The class-data archive of Spark's driver JVM: the classes of Spark's jars as the JVM keeps them in memory, ready to
be mapped. With it Spark starts in two thirds of the time.

    $XDG_CACHE_HOME/heliograph/spark/<key>.jsa        some 70 MB
                                     <key>.sum        its size and checksum

Owns its place and whether it may be used; make_class_archive makes it. The key is of everything that the JVM compares
before it uses an archive: Java's own build and the class path. So a new Java or Spark has another archive or none, and
never a wrong one; one that does not fit all the same is left aside by the JVM, which starts without it.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shlex
import shutil
import stat
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from heliograph.engine.spark_conf import is_local
from heliograph.model.events import Event
from heliograph.model.outbox import Outbox
from heliograph.model.user_cache import cache_root

log = logging.getLogger(__name__)

# What Java itself was installed with: an archive of ours only adds to it. A JRE that was built without has none.
_JAVAS_OWN_ARCHIVE = Path("lib", "server", "classes.jsa")
# Directories and jars that Spark's launcher adds to the class path.
_CLASS_PATH_VARIABLES = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
_PIECE_BYTES = 1 << 20
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def options_for(master: str) -> str:
    """The JVM's options to use the archive, if it is there. Of other masters the driver alone would gain by it."""
    archive = archive_place(spark_home()) if is_local(master) else None
    if archive is None:
        return ""
    if not is_usable(archive):
        log.info("Spark would start some 2 s sooner after: python -m heliograph.engine.make_class_archive")
        return ""
    return options_to_use(archive)


def discard(outbox: Outbox) -> None:
    """It is of no use: Spark started without it, and did not with it."""
    archive = archive_place(spark_home())
    if archive is not None:
        words = f"Spark does not start with {archive}, and starts without: it is removed"
        outbox.tell(Event.SPARK_ARCHIVE, words)
        with contextlib.suppress(OSError):
            archive.unlink()


def spark_home() -> Path:
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home())


def archive_place(spark: Path, environ: Mapping[str, str] = os.environ) -> Path | None:
    """Where the archive of this Java and this Spark is, or would be; None: this Java cannot use one."""
    java_home = _java_home(environ)
    if java_home is None or not (java_home / _JAVAS_OWN_ARCHIVE).is_file():
        return None
    digest = hashlib.sha256()
    try:
        for fact in _facts(java_home, spark, environ):
            digest.update(f"{fact}\n".encode())
    except OSError:
        return None
    return cache_root() / "spark" / f"{digest.hexdigest()[:16]}.jsa"


def is_usable(archive: Path) -> bool:
    """The JVM runs what is in it: nobody else may have written it. And it looks at the header only: one that was cut
    short kills it, so it must be whole."""
    try:
        seen = archive.stat()
        ours = seen.st_uid in (0, os.geteuid()) and not seen.st_mode & _WRITABLE_BY_OTHERS
        whole = ours and stat.S_ISREG(seen.st_mode) and sum_place(archive).read_text() == sum_of(archive)
    except (OSError, ValueError):
        return False
    return whole


def sum_place(archive: Path) -> Path:
    return archive.with_suffix(".sum")


def sum_of(archive: Path) -> str:
    """Some 50 ms, in which the file gets into memory, where the JVM wants it next."""
    size = crc = 0
    with archive.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            size, crc = size + len(piece), zlib.crc32(piece, crc)
    return f"{size} {crc:08x}\n"


def options_to_use(archive: Path) -> str:
    """auto: a JVM that cannot use it starts without."""
    return f"-XX:SharedArchiveFile={shlex.quote(str(archive))} -Xshare:auto"


def options_to_make(archive: Path) -> str:
    return f"-XX:ArchiveClassesAtExit={shlex.quote(str(archive))}"


def _java_home(environ: Mapping[str, str]) -> Path | None:
    """As Spark's launcher chooses it."""
    if environ.get("JAVA_HOME"):
        return Path(environ["JAVA_HOME"])
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    return Path(os.path.realpath(on_path)).parent.parent if on_path else None


def _facts(java_home: Path, spark: Path, environ: Mapping[str, str]) -> Iterator[str]:
    own = java_home / _JAVAS_OWN_ARCHIVE
    release = java_home / "release"
    yield release.read_text(errors="replace") if release.is_file() else ""
    yield _file_facts(Path(os.path.realpath(own)))
    for variable in _CLASS_PATH_VARIABLES:
        yield f"{variable}={environ.get(variable, '')}"
    for jar in sorted((spark / "jars").iterdir()):
        yield _file_facts(jar)


def _file_facts(path: Path) -> str:
    seen = path.stat()
    return f"{path} {seen.st_size} {seen.st_mtime_ns}"
