from __future__ import annotations

import pytest

from heliograph.lab.releases import JAXB, release

# Each of these ran with just this; 0.10.0 and 3.2 are at the borders.
NEEDS = [
    ("0.8.2.2", "kafka_2.11", False, True, False, 0),
    ("0.9.0.1", "kafka_2.11", False, True, True, 0),
    ("0.10.0.1", "kafka_2.11", False, True, True, 1),
    ("0.10.2.2", "kafka_2.12", True, True, True, 1),
    ("0.11.0.3", "kafka_2.12", True, True, True, 1),
    ("1.1.1", "kafka_2.12", False, True, True, 1),
    ("2.4.1", "kafka_2.13", False, True, True, 1),
    ("2.8.2", "kafka_2.13", False, True, True, 1),
    ("3.2.3", "kafka_2.13", False, True, True, 1),
    ("3.3.2", "kafka_2.13", False, False, True, 1),
    ("4.3.1", "kafka_2.13", False, False, True, 1),
]


@pytest.mark.parametrize(("version", "artifact", "jaxb", "zookeeper", "listeners", "metadata"), NEEDS)
def test_each_release_gets_what_it_needs(
    version: str, artifact: str, jaxb: bool, zookeeper: bool, listeners: bool, metadata: int
) -> None:
    found = release(version)
    assert found.artifacts[0] == ("org.apache.kafka", artifact, version)
    assert (JAXB in found.artifacts) is jaxb
    assert found.needs_zookeeper is zookeeper
    assert found.has_listeners is listeners
    assert found.metadata_version == metadata
    assert found.lists_brokers is (version != "0.8.2.2")
