"""Logs that real brokers wrote before an upgrade, under brokers of today: mirrored in two runs, the second of which
begins behind a compressed message of an old format, and judged by an independent consumer (P2, P4, P5)."""

from __future__ import annotations

import pytest

from heliograph.lab.cluster import LabCluster
from tests.support.judge import assert_identical
from tests.support.old_kafka import NO_TRANSACTIONS, create_by_asking, number_of, produce_as
from tests.support.plain_mirror import mirror_plainly, settings_for
from tests.support.records import mixed_records
from tests.support.upgraded_log import upgrade_logs
from tests.support.workload import produce_records

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

CODECS = ["none", "gzip", "snappy", "lz4"]
PARTITIONS = 2
RECORDS = 120
ADDED = 40
FORMATS = {"log.message.format.version": "0.9.0", "inter.broker.protocol.version": "0.9.0"}
WRITERS = [
    ("0.9.0.1", {}),
    ("0.10.2.2", {}),
    ("2.8.2", {"log.message.format.version": "0.10.2"}),
    ("2.8.2", FORMATS),
]
LIMIT_S = 150.0  # messages of format 0 have no time, and count as old


@pytest.mark.parametrize("kafka", ["3.9.1", "4.3.1"])
@pytest.mark.parametrize(
    ("written_by", "settings"), WRITERS, ids=["0.9", "0.10", "2.8-as-0.10", "2.8-as-0.9"]
)
def test_logs_from_before_an_upgrade_are_mirrored_in_two_runs(
    written_by: str, settings: dict[str, str], kafka: str, target_cluster: LabCluster
) -> None:
    stem = f"upgraded-{written_by}-{len(settings)}-{kafka}"
    topics = [f"{stem}-{codec}" for codec in CODECS]
    made_by_brokers = {"auto.create.topics.enable": "true", "num.partitions": str(PARTITIONS)}
    # Of brokers from 0.11 on: as a client that knows no headers.
    client = written_by if number_of(written_by) < NO_TRANSACTIONS else "0.10.2.2"
    with (
        LabCluster.start(name="old", kafka=written_by, properties={**made_by_brokers, **settings}) as old,
        LabCluster.start(name="new", kafka=kafka) as new,
    ):
        for codec, topic in zip(CODECS, topics, strict=True):
            create_by_asking(written_by, old.bootstrap_servers, topic, PARTITIONS)
            produce_as(client, old.bootstrap_servers, topic, mixed_records(3, RECORDS), codec)
        old.brokers[0].stop()
        upgrade_logs(old, new, topics, partitions=PARTITIONS)
        mirror = settings_for(new.bootstrap_servers, target_cluster.bootstrap_servers, topics)
        for round_ in range(2):
            _, copies = mirror_plainly(mirror, timeout_s=LIMIT_S)
            assert [copy.stopped for copy in copies.values() if copy.stopped] == []
            records = len(CODECS) * (RECORDS + round_ * ADDED)
            assert_identical(new.bootstrap_servers, target_cluster.bootstrap_servers, topics, records=records)
            for topic in topics:
                produce_records(new.bootstrap_servers, topic, list(mixed_records(9, ADDED)))
