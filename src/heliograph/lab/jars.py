"""Jars of a published Java artifact with everything it depends on, by the Ivy inside PySpark's jars.

Owns download, cache and the lock between downloads. Must not know what a broker is. A directory of
jars in the cache is complete: it appears by one rename, after the last jar.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from heliograph.lab.cache import artifact_directory, ivy_directory, ivy_lock, kafka_directory
from heliograph.lab.java import find_java
from heliograph.lab.releases import Artifact, release
from heliograph.model.errors import LabError

DEFAULT_KAFKA = "4.3.1"
DOWNLOAD_TIMEOUT_S = 900


def kafka_libs(version: str) -> Path:
    """The directory with a broker's jars, downloaded at first use."""
    return _cached(kafka_directory(version), release(version).artifacts)


def resolve(group: str, artifact: str, version: str) -> Path:
    """The directory with an artifact's jars and all it needs, downloaded at first use."""
    return _cached(artifact_directory(group, artifact, version), [(group, artifact, version)])


def _cached(home: Path, artifacts: Sequence[Artifact]) -> Path:
    libs = home / "libs"
    if libs.is_dir():
        return libs
    with _only_download():
        if not libs.is_dir():  # whoever held the lock before us may have fetched the same
            _, artifact, version = artifacts[0]
            sys.stderr.write(f"fetching {artifact} {version} and what it needs (about 40 s) ...\n")
            _download(libs, artifacts)
            sys.stderr.write(f"fetched {len(list(libs.iterdir()))} jars into {libs}\n")
    return libs


@contextlib.contextmanager
def _only_download() -> Iterator[None]:
    # One lock for all downloads: they share Ivy's cache, which is not safe for two at once.
    ivy_lock().parent.mkdir(parents=True, exist_ok=True)
    with ivy_lock().open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.stderr.write("waiting for another download to end ...\n")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _download(libs: Path, artifacts: Sequence[Artifact]) -> None:
    libs.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=libs.parent, prefix="unfinished-"))
    try:
        for group, artifact, version in artifacts:
            _retrieve(unfinished, group, artifact, version)
        _add_log_binding(unfinished)
        unfinished.chmod(0o755)
        unfinished.rename(libs)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        with contextlib.suppress(OSError):
            libs.parent.rmdir()  # only an empty one goes: no trace of a version that does not exist


def _add_log_binding(libs: Path) -> None:
    # Newer artifacts of Kafka bring slf4j's interface and no implementation: without one a broker is mute. The simple
    # one serves them all alike, set up by system properties alone (see broker.py). Older ones bring log4j's.
    if any(list(libs.glob(f"slf4j-{name}-*.jar")) for name in ("simple", "log4j12", "reload4j")):
        return
    for interface in libs.glob("slf4j-api-*.jar"):
        version = interface.stem.removeprefix("slf4j-api-")
        _retrieve(libs, "org.slf4j", "slf4j-simple", version)


def _retrieve(into: Path, group: str, artifact: str, version: str) -> None:
    command: list[str | Path] = [find_java() / "bin" / "java", "-cp", _ivy_jar(), "org.apache.ivy.Main"]
    command += ["-cache", ivy_directory(), "-dependency", group, artifact, version, "-confs", "default"]
    command += ["-types", "jar", "bundle"]  # without `bundle` snappy's jar is left out
    command += ["-retrieve", f"{into}/[artifact]-[revision](-[classifier]).[ext]"]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=DOWNLOAD_TIMEOUT_S
        )
    except subprocess.TimeoutExpired as error:
        raise LabError(
            f"fetching {artifact} {version} took longer than {DOWNLOAD_TIMEOUT_S} s",
            hint="check the network and try again: what was fetched is kept",
        ) from error
    if done.returncode != 0 or not list(into.glob(f"{artifact}-{version}*.jar")):
        raise _download_error(f"{group}:{artifact}:{version}", done.stdout)


def _download_error(wanted: str, output: str) -> LabError:
    problems = [line.strip() for line in output.splitlines() if re.search(r"WARN|ERROR|not found", line)]
    unreachable = re.search(r"Host .* not found|Server access error|[Cc]onnection|timed out", output)
    if unreachable is not None:
        return LabError(
            f"cannot fetch {wanted}: the package repository cannot be reached ({unreachable[0].strip()})",
            hint="check the network; behind a proxy set JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=... ",
        )
    if any("not found" in line for line in problems):
        return LabError(f"there is no {wanted}", hint="check the version: only released ones can be fetched")
    return LabError(f"cannot fetch {wanted}: {' / '.join(problems[-3:])}", hint="try again")


def _ivy_jar() -> Path:
    # Looked up without importing pyspark: the lab starts no Spark.
    spec = importlib.util.find_spec("pyspark")
    places = spec.submodule_search_locations if spec is not None else None
    for place in places or ():
        for jar in Path(place, "jars").glob("ivy-*.jar"):
            return jar
    raise LabError("PySpark's jars hold no Ivy", hint="pip install 'pyspark>=4.3,<4.4'")


def main() -> int:
    """Fetches the default Kafka and prints where its jars are: `python -m heliograph.lab.jars`."""
    try:
        sys.stdout.write(f"{kafka_libs(DEFAULT_KAFKA)}\n")
    except LabError as error:
        sys.stderr.write(f"error: {error.message}\nhint: {error.hint}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
