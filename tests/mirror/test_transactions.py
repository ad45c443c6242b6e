"""Topics with transactions are mirrored with identical offsets (P2, P4), judged by an independent consumer."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from heliograph.copier import vigil
from heliograph.lab.cluster import LabCluster
from heliograph.model.events import Event
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


def test_a_transaction_that_is_left_open_is_told_with_whose_it_is_and_since_when(
    source_cluster: LabCluster, target_cluster: LabCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vigil, "LOOK_S", 0.1)
    monkeypatch.setattr(vigil, "HELD_LIMIT_S", 1.0)
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    create_topic(source, topic, 1)
    before = datetime.now(UTC).replace(microsecond=0)
    with writers(source, ["ends", "hangs"]) as (ends, hangs):
        hangs.write(topic, 2)
        ends.write(topic, 3)
        ends.commit()
        _, copies = mirror_plainly(
            settings_for(source, target, [topic]), lambda copies: any(c.notices for c in copies.values())
        )
        after = datetime.now(UTC)
    (copy,) = copies.values()
    (notice,) = copy.notices
    assert (notice.event, notice.first_offset, notice.next_offset) == (Event.TRANSACTION_OPEN, 0, 6)
    told = re.search(r"producer id \d+, transactional id (\S+), open since (\S+)\)", notice.message)
    assert told is not None, notice.message
    assert told[1] == hangs.transactional_id
    assert before <= datetime.fromisoformat(told[2]) <= after
    assert "has held back 6 offsets" in notice.message
    assert notice.hint is not None
    assert notice.hint.startswith(
        f"kafka-transactions.sh --bootstrap-server {source} abort --topic {topic} --partition 0 --start-offset 0"
    )
