"""Spark's settings, as pure functions: retries in local mode, loopback where Spark is local, the user's word last."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from heliograph.engine import lane_daemon, run_directory
from heliograph.engine.session import Session
from heliograph.engine.spark_conf import (
    check_conf,
    conf_for,
    is_local,
    local_master,
    local_slots,
    network_warning,
)
from heliograph.model.errors import UsageError
from heliograph.model.occurrence_log import logged
from heliograph.model.settings import MIB, SparkSettings

DIRECTORY = Path("/somewhere/of/its/own")


@pytest.mark.parametrize(
    ("master", "meant"),
    [
        ("local", "local[2,4]"),
        ("local[1]", "local[2,4]"),
        ("local[8]", "local[9,4]"),
        ("local[*]", "local[7,4]"),
        ("local[2,1]", "local[3,1]"),
        ("local[*, 9]", "local[7,9]"),
    ],
)
def test_local_mode_retries_tasks_and_has_a_slot_that_no_lane_takes(master: str, meant: str) -> None:
    assert local_master(master, cores=6) == meant


@pytest.mark.parametrize(
    "master", ["spark://host:7077", "yarn", "k8s://https://host:443", "local-cluster[2,1,1024]"]
)
def test_any_other_master_is_left_as_the_user_wrote_it(master: str) -> None:
    assert local_master(master, cores=6) == master


def test_the_users_settings_win_over_ours() -> None:
    conf = conf_for(
        SparkSettings(master="local[2]", conf={"spark.driver.memory": "4g", "spark.ui.enabled": "false"}),
        DIRECTORY,
    )
    assert conf["spark.driver.memory"] == "4g"
    assert conf["spark.ui.enabled"] == "false"
    assert conf["spark.master"] == "local[3,4]"


def test_everything_spark_writes_goes_into_the_sessions_directory() -> None:
    conf = conf_for(SparkSettings(), DIRECTORY)
    for key in ("spark.local.dir", "spark.sql.warehouse.dir"):
        assert Path(conf[key]).is_relative_to(DIRECTORY)
    assert str(DIRECTORY) in conf["spark.driver.extraJavaOptions"]


def test_what_the_lanes_rely_on_is_set() -> None:
    conf = conf_for(SparkSettings(), DIRECTORY)
    assert conf["spark.scheduler.mode"] == "FAIR"
    assert conf["spark.python.worker.reuse"] == "true"
    assert conf["spark.python.daemon.module"] == lane_daemon.__name__
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
    code = (
        "import os, signal\nfrom heliograph.engine.run_directory import RunDirectory\nkept = RunDirectory()\n"
        "print(kept.path, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    environ = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.run([sys.executable, "-c", code], env=environ, stdout=subprocess.PIPE, check=False)
    left = Path(killed.stdout.decode().strip())
    assert left.parent == tmp_path
    assert left.exists()
    run_directory.sweep()
    assert not left.exists()


def test_what_a_live_run_uses_is_left_alone_even_where_its_process_id_means_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a container that shares the directory of temporary files but not the process ids."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(os, "getpid", lambda: 2**31 - 1)
        in_use = run_directory.RunDirectory()
    foreign = tmp_path / f"{run_directory.DIRECTORY_PREFIX}notes-abc"
    foreign.mkdir()
    run_directory.sweep()
    assert in_use.path.exists()
    assert foreign.exists()
    in_use.remove()
    assert not in_use.path.exists()


# -- memory of an executor beside its heap

CLUSTER = "spark://host:7077"
OVERHEAD = "spark.executor.memoryOverhead"


def overhead(lane_memory_bytes: int = 64 * MIB, **conf: str) -> str | None:
    settings = SparkSettings(master=CLUSTER, conf={key.replace("_", "."): text for key, text in conf.items()})
    return conf_for(settings, DIRECTORY, lane_memory_bytes).get(OVERHEAD)


def test_memory_overhead_holds_a_lane_beside_what_the_jvm_needs() -> None:
    assert overhead() == f"{384 + 64 + 150}m"
    assert overhead(lane_memory_bytes=256 * MIB) == f"{384 + 256 + 150}m"
    assert overhead(lane_memory_bytes=8 * MIB + 1) == f"{384 + 8 + 150 + 1}m"


def test_memory_overhead_grows_with_the_lanes_an_executor_can_run_at_once() -> None:
    assert overhead(spark_executor_cores="4") == f"{384 + 4 * (64 + 150)}m"
    assert overhead(spark_executor_cores="4", spark_task_cpus="2") == f"{384 + 2 * (64 + 150)}m"
    assert overhead(spark_executor_cores="1", spark_task_cpus="2") == f"{384 + 64 + 150}m"


@pytest.mark.parametrize(
    ("heap", "jvm_mib"), [("10g", 1024), ("10240", 1024), ("8GB", 819.2), ("512m", 384), ("odd", 384)]
)
def test_memory_overhead_keeps_sparks_own_share_for_the_heap(heap: str, jvm_mib: float) -> None:
    found = overhead(spark_executor_memory=heap)
    assert found is not None
    assert int(found.removesuffix("m")) == -(-(jvm_mib + 64 + 150) // 1)


def test_the_users_memory_overhead_is_left_as_it_is() -> None:
    asked = {OVERHEAD: "100m"}
    assert conf_for(SparkSettings(master=CLUSTER, conf=asked), DIRECTORY)[OVERHEAD] == "100m"
    by_factor = {f"{OVERHEAD}Factor": "0.4"}
    assert OVERHEAD not in conf_for(SparkSettings(master=CLUSTER, conf=by_factor), DIRECTORY)


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2,4]"])
def test_a_local_master_has_no_executors_and_no_overhead(master: str) -> None:
    assert OVERHEAD not in conf_for(SparkSettings(master=master), DIRECTORY)


# -- a Spark that anybody may talk to


@pytest.mark.parametrize("master", [CLUSTER, "yarn", "k8s://https://host:443", "local-cluster[2,1,1024]"])
def test_a_cluster_without_authentication_is_warned_of_with_the_remedy(master: str) -> None:
    warning = network_warning(SparkSettings(master=master))
    assert warning is not None
    assert "run code" in warning
    assert "spark.authenticate: true" in warning
    assert network_warning(SparkSettings(master=master, conf={"spark.authenticate": " True "})) is None


def test_a_local_spark_is_not_warned_of() -> None:
    assert is_local("local[*]")
    assert network_warning(SparkSettings(master="local[*]")) is None


# -- what cannot work is refused before anything starts


@pytest.mark.parametrize("value", ["true", "TRUE", " true "])
def test_speculation_is_refused_with_the_reason(value: str) -> None:
    with pytest.raises(UsageError, match="two copiers of one partition") as refused:
        Session(SparkSettings(conf={"spark.speculation": value}), logged())
    assert refused.value.hint
    check_conf({"spark.speculation": "false"})


def test_a_limit_on_the_address_space_of_lanes_is_refused_with_the_reason() -> None:
    with pytest.raises(UsageError, match="address space") as refused:
        Session(SparkSettings(conf={"spark.executor.pyspark.memory": "1g"}), logged())
    assert "lane_memory" in refused.value.hint


def test_a_spark_that_somebody_else_started_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    with pytest.raises(UsageError, match="spark-submit") as refused:
        Session(SparkSettings(), logged())
    assert "heliograph run" in refused.value.hint


@pytest.mark.parametrize(
    ("master", "slots"),
    [
        ("local", 1),
        ("local[3]", 3),
        ("local[3,4]", 3),
        ("local[*]", 7),
        ("local[*,4]", 7),
        ("spark://host:7077", None),
        ("local-cluster[2,1,1024]", None),
        ("yarn", None),
    ],
)
def test_only_a_local_master_has_a_fixed_number_of_slots(master: str, slots: int | None) -> None:
    assert local_slots(master, 7) == slots
