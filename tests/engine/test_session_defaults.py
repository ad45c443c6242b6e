"""What Spark reads beside our conf (spark-defaults.conf) is checked once it is up: then nothing of it may be left."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from heliograph.engine import session
from heliograph.engine.session import Session
from heliograph.model.errors import UsageError
from heliograph.model.occurrence_log import logged
from heliograph.model.settings import SparkSettings

SPARK_LIMIT_S = 120


class StartedSpark:
    """Spark's context and its JVM in one, as they are once they are up."""

    gone = False

    def __init__(self, effective: dict[str, str]) -> None:
        self.ended: list[str] = []
        self._jsc = SimpleNamespace(sc=lambda: self)
        self._effective = effective

    def getConf(self) -> SimpleNamespace:
        return SimpleNamespace(getAll=lambda: list(self._effective.items()))

    def isStopped(self) -> bool:
        return bool(self.ended)

    def stop(self) -> None:
        self.ended.append("context")

    def end(self, _timeout_s: float) -> None:
        self.ended.append("JVM")


@pytest.fixture(autouse=True)
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)


def started(monkeypatch: pytest.MonkeyPatch, **effective: str) -> StartedSpark:
    spark = StartedSpark({key.replace("_", "."): value for key, value in effective.items()})
    monkeypatch.setattr(session, "_start", lambda *_: (spark, spark))
    return spark


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("spark.speculation", "true", "two copiers of one partition"),
        ("spark.executor.pyspark.memory", "1g", "address space"),
    ],
)
def test_what_cannot_work_is_refused_wherever_spark_has_it_from_and_spark_is_ended(
    key: str, value: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = started(monkeypatch, **{key: value})
    with pytest.raises(UsageError, match=reason) as refused:
        Session(SparkSettings(), logged())
    assert "spark-defaults.conf" in refused.value.hint
    assert spark.ended == ["context", "JVM"]
    assert not list(tmp_path.iterdir())


def test_a_spark_whose_defaults_can_work_stays_up(monkeypatch: pytest.MonkeyPatch) -> None:
    spark = started(monkeypatch, spark_speculation="false", spark_ui_enabled="false")
    running = Session(SparkSettings(), logged())
    assert spark.ended == []
    running.stop()


_START = """\
import psutil
from heliograph.engine.session import Session
from heliograph.model.errors import UsageError
from heliograph.model.occurrence_log import logged
from heliograph.model.settings import SparkSettings
try:
    Session(SparkSettings(master="local[1]"), logged())
except UsageError as refused:
    print(refused.message)
print(psutil.Process().children(recursive=True))
"""


@pytest.mark.spark
def test_speculation_from_sparks_own_defaults_is_refused_and_no_jvm_is_left(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.speculation true\n")
    environ = {**os.environ, "SPARK_CONF_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", _START]
    done = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=SPARK_LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    refusal, left = done.stdout.splitlines()
    assert "two copiers of one partition" in refusal
    assert left == "[]"
