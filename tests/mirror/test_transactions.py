"""Topics with transactions are mirrored with identical offsets (P2, P4), judged by an independent consumer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from heliograph.lab.cluster import LabCluster
from heliograph.model.policy import Isolation, LinkPolicy
from heliograph.model.states import PartitionState
from tests.support.judge import assert_identical
from tests.support.plain_mirror import Copies, mirror_plainly, settings_for, settled
from tests.support.topics import create_topic
from tests.support.transactions import write_mixed, writers

pytestmark = pytest.mark.kafka

COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"


@pytest.fixture
def topic(unique_topic: Callable[[str], str]) -> str:
    return unique_topic("transactions")


def _mirror(source: LabCluster, target: LabCluster, topic: str, policy: LinkPolicy | None = None) -> Copies:
    link = {"policy": policy} if policy is not None else {}
    _, copies = mirror_plainly(
        settings_for(source.bootstrap_servers, target.bootstrap_servers, [topic], **link)
    )
    assert settled(copies)
    assert all(copy.stopped is None for copy in copies.values()), copies
    return copies


def test_both_views_of_the_target_are_the_sources_committed_view(
    source_cluster: LabCluster, target_cluster: LabCluster, topic: str
) -> None:
    """Three producers, a third of whose transactions abort; mirrored in two runs, the second behind a gap."""
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    create_topic(source, topic, 1)
    with writers(source, ["one", "two", "three"]) as by:
        write_mixed(1, topic, by, 120)
        _mirror(source_cluster, target_cluster, topic)
        write_mixed(2, topic, by, 80)
        _mirror(source_cluster, target_cluster, topic)
    for view in (COMMITTED, UNCOMMITTED):
        assert_identical(source, target, [topic], isolations=(COMMITTED, view))


def test_a_link_of_uncommitted_records_copies_what_was_aborted(
    source_cluster: LabCluster, target_cluster: LabCluster, topic: str
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    create_topic(source, topic, 1)
    with writers(source, ["one", "two"]) as by:
        write_mixed(3, topic, by, 60)
    _mirror(source_cluster, target_cluster, topic, LinkPolicy(isolation=Isolation.READ_UNCOMMITTED))
    for view in (COMMITTED, UNCOMMITTED):
        assert_identical(source, target, [topic], isolations=(UNCOMMITTED, view))


def test_a_transaction_that_is_open_is_waited_for_at_the_last_stable_offset(
    source_cluster: LabCluster, target_cluster: LabCluster, topic: str
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    create_topic(source, topic, 1)
    with writers(source, ["one", "two"]) as (one, two):
        one.write(topic, 3)
        one.commit()
        two.write(topic, 2)
        one.write(topic, 3)
        one.commit()
        copies = _mirror(source_cluster, target_cluster, topic)
        (copy,) = copies.values()
        assert copy.state is PartitionState.CAUGHT_UP
        assert copy.next_offset == 4  # three records and a marker; `two` is open from there on
        two.commit()
    _mirror(source_cluster, target_cluster, topic)
    assert_identical(source, target, [topic], records=8)
