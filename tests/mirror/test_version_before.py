"""The version that elected by the link's name, and this one, on the same clusters and config: never both copy (P2).

Goes when the link's own group goes (cluster/leader_group.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from heliograph.lab.cluster import LabCluster
from tests.support.fault_scene import fill
from tests.support.judge import assert_identical
from tests.support.mirror_process import MirrorProcess, write_config
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.faults, pytest.mark.slow]

PARTITIONS, RECORDS = 4, 2_000
DAYS_MS = 3 * 86_400_000  # records so old that only the election keeps copies apart
TAKE_OVER_S = 180.0  # old records wait until nothing of the other run can arrive any more


class Pair:
    """Two runs of one config; looks, whenever it is asked to wait, whether lanes of both hold something."""

    def __init__(self, first: MirrorProcess, second: MirrorProcess) -> None:
        self.first, self.second = first, second
        self.both: list[tuple[set[int], set[int]]] = []

    def look(self) -> None:
        one, two = holding(self.first), holding(self.second)
        if one and two:
            self.both.append((one, two))

    def wait(self, run: MirrorProcess, condition: Callable[[], bool], what: str) -> None:
        def looked() -> bool:
            self.look()
            return condition()

        run.wait_until(looked, what, TAKE_OVER_S)


def holding(run: MirrorProcess) -> set[int]:
    partitions = run.live().get("partitions", [])
    return {partition for p in partitions if p["lane"] is not None for (_, _, _, partition) in [p["key"]]}


def copied_all(run: MirrorProcess, records: int) -> bool:
    partitions = run.live().get("partitions", [])
    return run.copied() >= records and all(p["lane"] is not None for p in partitions)


@pytest.mark.parametrize(
    "before_first", [True, False], ids=["the version before first", "this version first"]
)
def test_the_version_before_and_this_one_never_both_copy(
    before_first: bool,
    code_before: Path,
    source_cluster: LabCluster,
    target_cluster: LabCluster,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    topic = unique_topic("versions")
    create_topic(source, topic, PARTITIONS)
    fill(source, topic, RECORDS, partitions=PARTITIONS, age_ms=DAYS_MS)
    config = write_config(tmp_path, source=source, target=target, topics=[topic])
    beside = tmp_path / "beside"
    beside.mkdir()
    codes = (code_before, None) if before_first else (None, code_before)
    with contextlib.ExitStack() as both:
        first = both.enter_context(MirrorProcess(config, runtime=tmp_path, code=codes[0]))
        first.wait_until(lambda: copied_all(first, RECORDS), "the first's copying")
        second = both.enter_context(MirrorProcess(config, runtime=beside, code=codes[1]))
        pair = Pair(first, second)
        second.wait_until(lambda: "stands by" in second.log, "the second's word that it stands by")
        assert ("a run of the version before this one" in second.log) == before_first
        second.wait_until(lambda: len(second.lane_pids()) > 0, "the second's lanes")

        fill(source, topic, RECORDS, partitions=PARTITIONS, age_ms=DAYS_MS)
        pair.wait(first, lambda: copied_all(first, 2 * RECORDS), "the first's copying on")
        assert second.live()["links"]["link"]["role"] == "standby"
        assert holding(second) == set()

        first.terminate()
        assert first.wait()[0] == 0, first.log
        fill(source, topic, RECORDS, partitions=PARTITIONS, age_ms=DAYS_MS)
        if before_first:
            pair.wait(second, lambda: copied_all(second, 3 * RECORDS), "the second's copying")
        else:  # it compares batches: it takes merged ones for somebody else's, says so, and writes nothing
            pair.wait(second, lambda: second.log.count("[anchor]") == PARTITIONS, "the second's stops")
        assert pair.both == []
        second.terminate()
        assert second.wait()[0] == 0 or not before_first, second.log
    if not before_first:
        with MirrorProcess(config, "--until-caught-up", "--json", runtime=tmp_path) as again:
            again.result()
    assert_identical(source, target, [topic], records=3 * RECORDS)
