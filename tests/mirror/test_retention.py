"""A target topic keeps records as long as its source does, also where that is a default of the source's brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource

from heliograph.lab.cluster import LabCluster
from tests.support.judge import assert_identical
from tests.support.plain_mirror import mirror_plainly, settings_for
from tests.support.records import mixed_records
from tests.support.topics import TIMEOUT_S, create_topic
from tests.support.workload import produce_records

pytestmark = pytest.mark.kafka
DAY_MS = str(24 * 3_600_000)


@pytest.fixture(scope="module")
def other_defaults() -> Iterator[LabCluster]:
    """Brokers keep records for a week, unless told otherwise."""
    properties = {"log.retention.hours": "24", "log.cleaner.delete.retention.ms": "7200000"}
    with LabCluster.start(name="a-day", properties=properties) as cluster:
        yield cluster


def configs(bootstrap: str, topic: str) -> tuple[dict[str, str], dict[str, str]]:
    """What is in force, and what of it was set on the topic itself."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (found,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]).values()
    entries = found.result(TIMEOUT_S).values()
    own = {e.name: e.value for e in entries if e.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value}
    return {e.name: e.value for e in entries}, own


def test_the_retention_of_the_sources_brokers_is_in_force_on_the_target(
    other_defaults: LabCluster, target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    source, target = other_defaults.bootstrap_servers, target_cluster.bootstrap_servers
    plain, kept = unique_topic("plain"), unique_topic("kept")
    create_topic(source, plain)
    create_topic(source, kept, configs={"retention.ms": "-1"})
    for topic in (plain, kept):
        produce_records(source, topic, list(mixed_records(1, 20)))
    assert configs(source, plain)[1] == {}

    mirror_plainly(settings_for(source, target, [plain, kept]))
    assert_identical(source, target, [plain, kept], records=40)
    in_force, own = configs(target, plain)
    assert (in_force["retention.ms"], in_force["delete.retention.ms"]) == (DAY_MS, "7200000")
    assert (
        "retention.bytes" not in own
    )  # both clusters have the same default: it is left to the target's brokers
    assert "cleanup.policy" not in own
    assert configs(target, kept)[0]["retention.ms"] == "-1"
