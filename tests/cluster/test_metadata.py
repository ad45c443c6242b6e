"""Which topics new metadata says something new of: only their partitions are routed again."""

from __future__ import annotations

from dataclasses import replace

from heliograph.cluster.metadata import Broker, ClusterMetadata, Leader, TopicMetadata


def topic(name: str, *nodes: int, topic_id: str = "a", epoch: int = 0) -> TopicMetadata:
    return TopicMetadata(
        name=name,
        topic_id=topic_id,
        internal=False,
        error=0,
        leaders={number: Leader(node, epoch) for number, node in enumerate(nodes)},
        replication_factor=1,
    )


def metadata(*topics: TopicMetadata, nodes: tuple[int, ...] = (1, 2)) -> ClusterMetadata:
    return ClusterMetadata(
        cluster_id="c",
        controller=1,
        brokers={node: Broker(node, "host", node) for node in nodes},
        topics={each.name: each for each in topics},
    )


BEFORE = metadata(topic("orders", 1, 2), topic("payments", 1))


def changed(*topics: TopicMetadata, nodes: tuple[int, ...] = (1, 2)) -> list[str]:
    return BEFORE.updated(metadata(*topics, nodes=nodes), 0.0).changed_since(BEFORE)


def test_the_same_again_is_no_news() -> None:
    assert changed(topic("orders", 1, 2), topic("payments", 1)) == []


def test_a_leader_an_epoch_or_an_id_that_is_new_is() -> None:
    assert changed(topic("orders", 1, 1, epoch=1), topic("payments", 1)) == ["orders"]
    assert changed(topic("orders", 1, 2), topic("payments", 1, epoch=3)) == ["payments"]
    assert changed(topic("orders", 1, 2, topic_id="b"), topic("payments", 1)) == ["orders"]
    assert changed(replace(topic("orders", 1, 2), error=3), topic("payments", 1)) == ["orders"]


def test_a_broker_that_lags_tells_nothing_new() -> None:
    older = metadata(topic("orders", 1, 2, epoch=-1), topic("payments", 1))
    assert BEFORE.updated(older, 0.0).changed_since(BEFORE) == []


def test_topics_that_come_and_go_are() -> None:
    assert changed(topic("orders", 1, 2), topic("refunds", 1)) == ["payments", "refunds"]


def test_when_brokers_come_or_go_it_is_all_topics() -> None:
    """A leader that metadata does not know the address of is none."""
    assert changed(topic("orders", 1, 2), topic("payments", 1), nodes=(1,)) == ["orders", "payments"]
