"""A target that holds the mirror to a quota: the copy takes its time, says why, and no lane is ended for it (P7)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from heliograph.lab.cluster import LabCluster
from tests.support.fault_scene import VALUE_BYTES, fill
from tests.support.judge import assert_identical
from tests.support.mirror_process import MirrorProcess, write_config
from tests.support.quota import set_write_quota
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.faults, pytest.mark.slow]

DAY_MS = 86_400_000
TAKES_S = 40  # longer than a lane may stand still
LIMIT_S = 300.0


@pytest.mark.parametrize("age_ms", [0, 3 * DAY_MS], ids=["fresh", "old"])
@pytest.mark.parametrize("bytes_per_s", [50_000, 1_000_000])
def test_a_quota_is_waited_out_and_told_and_ends_no_lane(
    source_cluster: LabCluster,
    target_cluster: LabCluster,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
    bytes_per_s: int,
    age_ms: int,
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    topic = unique_topic("quota")
    create_topic(source, topic, 4)
    fill(source, topic, TAKES_S * bytes_per_s // VALUE_BYTES, age_ms=age_ms)
    config = write_config(tmp_path, source=source, target=target, topics=[topic], lanes=1)
    set_write_quota(target, bytes_per_s)
    try:
        with MirrorProcess(config, "--until-caught-up", "--json", runtime=tmp_path) as mirror:
            mirror.wait_until(lambda: _bound_by(mirror) == "quota", "a link that is bound by a quota")
            mirror.result(LIMIT_S)
            assert "lane_hung" not in mirror.log
            assert "is gone" not in mirror.log
    finally:
        set_write_quota(target, None)
    assert_identical(source, target, [topic])


def _bound_by(mirror: MirrorProcess) -> str | None:
    link = mirror.live().get("links", {}).get("link", {})
    bound_by: str | None = link.get("bound_by")
    return bound_by
