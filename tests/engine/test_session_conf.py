"""Spark's settings, as pure functions: retries in local mode, loopback where Spark is local, the user's word last."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from heliograph.engine import session
from heliograph.engine.session import conf_for, master_with_retries
from heliograph.model.settings import SparkSettings

DIRECTORY = Path("/somewhere/of/its/own")


@pytest.mark.parametrize(
    ("master", "meant"),
    [
        ("local", "local[1,4]"),
        ("local[1]", "local[1,4]"),
        ("local[8]", "local[8,4]"),
        ("local[*]", "local[*,4]"),
    ],
)
def test_local_mode_retries_tasks(master: str, meant: str) -> None:
    assert master_with_retries(master) == meant


@pytest.mark.parametrize(
    "master",
    [
        "local[2,1]",
        "local[*,9]",
        "spark://host:7077",
        "yarn",
        "k8s://https://host:443",
        "local-cluster[2,1,1024]",
    ],
)
def test_any_other_master_is_left_as_the_user_wrote_it(master: str) -> None:
    assert master_with_retries(master) == master


def test_the_users_settings_win_over_ours() -> None:
    conf = conf_for(
        SparkSettings(master="local[2]", conf={"spark.driver.memory": "4g", "spark.ui.enabled": "false"}),
        DIRECTORY,
    )
    assert conf["spark.driver.memory"] == "4g"
    assert conf["spark.ui.enabled"] == "false"
    assert conf["spark.master"] == "local[2,4]"


def test_everything_spark_writes_goes_into_the_sessions_directory() -> None:
    conf = conf_for(SparkSettings(), DIRECTORY)
    for key in ("spark.local.dir", "spark.sql.warehouse.dir"):
        assert Path(conf[key]).is_relative_to(DIRECTORY)
    assert str(DIRECTORY) in conf["spark.driver.extraJavaOptions"]


def test_what_the_lanes_rely_on_is_set() -> None:
    conf = conf_for(SparkSettings(), DIRECTORY)
    assert conf["spark.scheduler.mode"] == "FAIR"
    assert conf["spark.python.worker.reuse"] == "true"
    assert conf["spark.python.unix.domain.socket.enabled"] == "true"
    assert conf["spark.task.reaper.enabled"] == "true"


@pytest.mark.parametrize("master", ["local", "local[*]", "spark://127.0.0.1:7077", "spark://localhost:7077"])
def test_a_spark_of_this_machine_listens_on_loopback_only(master: str) -> None:
    conf = conf_for(SparkSettings(master=master), DIRECTORY)
    assert conf["spark.driver.host"] == conf["spark.driver.bindAddress"] == "127.0.0.1"


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn"])
def test_a_spark_elsewhere_can_reach_the_driver(master: str) -> None:
    assert "spark.driver.host" not in conf_for(SparkSettings(master=master), DIRECTORY)


def test_the_users_conf_may_hold_secrets_and_is_left_as_it_was() -> None:
    user_conf = {"spark.authenticate.secret": "hush"}
    settings = SparkSettings(conf=user_conf)
    conf_for(settings, DIRECTORY)
    assert user_conf == {"spark.authenticate.secret": "hush"}
    assert "hush" not in repr(settings)


def test_what_a_killed_run_left_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = tmp_path / f"{session.DIRECTORY_PREFIX}{gone.pid}-abc"
    in_use = tmp_path / f"{session.DIRECTORY_PREFIX}{os.getpid()}-abc"
    foreign = tmp_path / f"{session.DIRECTORY_PREFIX}notes-abc"
    for directory in (left, in_use, foreign):
        directory.mkdir()
    session.sweep()
    assert not left.exists()
    assert in_use.exists()
    assert foreign.exists()
