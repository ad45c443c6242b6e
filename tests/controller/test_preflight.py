"""Preflight: brokers' answers become findings, one for each right that is missing; what is not said is not guessed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from heliograph.cluster.admin import read_state_lasts_ms
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.grants import Resource, Right
from heliograph.cluster.metadata import Broker, ClusterMetadata, Leader, TopicMetadata
from heliograph.cluster.properties import ClientProperties
from heliograph.controller.build_settings import with_build
from heliograph.controller.finding import Finding, listed
from heliograph.controller.gap_filling import GapFilling, GapWay, read_gap_filling
from heliograph.controller.plan import plan
from heliograph.controller.preflight import preflight
from heliograph.controller.preflight_brokers import TARGET_NEEDS
from heliograph.controller.snapshot import LinkSnapshot, PartitionSight
from heliograph.model.errors import BrokerRefused, ClusterUnreachable, Disconnected
from heliograph.model.events import Severity
from heliograph.model.fill_way import FillWay
from heliograph.model.ledger import COMMANDS_TOPIC, EVENTS_TOPIC, LEDGER_TOPIC, OWN_TOPICS
from heliograph.model.link import Link
from heliograph.model.partition import TopicPartition
from heliograph.model.policy import DEFAULT_POLICY, OnLoss, OnSourceDelete, TopicPolicy
from heliograph.model.states import StopReason
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.error_codes import ErrorCode

from .observed import (
    LINK,
    NYC_ID,
    SF_ID,
    config,
    mirrored_sight,
    snapshot,
    source_sight,
    source_topic,
    span,
    target_topic,
)

EVERY_RIGHT = frozenset(range(3, 13))
DENIED, GONE = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
DAY_MS = 86_400_000


class FakeCluster:
    """Brokers 1..n that check rights as Kafka does: `held` by topic, `None` for a topic of which they say nothing.

    A topic that is not in `held` is not there, and may be seen. `hidden` ones may not be seen. `own`: the same of
    Heliograph's own topics, which are all there, with every right, unless a test says otherwise.
    """

    properties = ClientProperties(bootstrap_servers=(("127.0.0.1", 9092),))

    def __init__(self, name: str, held: Mapping[str, frozenset[int] | None], *, brokers: int = 1) -> None:
        self.name, self.held = name, dict(held)
        self.own: dict[str, frozenset[int] | None] = dict.fromkeys(OWN_TOPICS, EVERY_RIGHT)
        self.own_creation: tuple[int, str] = (0, "")
        self.own_unreadable = False  # while they are not there
        self.hidden: set[str] = set()
        self.refused_configs: set[str] = set()  # of topics that are to be created
        self.cluster_rights: frozenset[int] | None = EVERY_RIGHT
        self.creation: tuple[int, str] = (0, "")
        self.heartbeat = int(ErrorCode.NOT_COORDINATOR)
        self.hides_expiry = False  # when it was observed
        self.expiries: dict[int, int | Exception] = dict.fromkeys(range(1, brokers + 1), DAY_MS)
        self.versions = {need.api_key: (need.versions[0], need.versions[-1]) for need in TARGET_NEEDS}
        self.versions |= {ApiKey.DESCRIBE_CLUSTER: (0, 1)}
        self.marker_codes: dict[int, int | Exception] = dict.fromkeys(range(1, brokers + 1), GONE)
        self.transactional_ids: set[str] = set()  # which may be used
        self.knows_transactions = True
        self.offsets_replication: int | None = 1
        self.registered = brokers
        self.unreachable: set[int] = set()
        self.end_error = 0
        self.asked: list[str] = []
        self.metadata = ClusterMetadata(
            cluster_id=f"{name}-id",
            controller=1,
            brokers={node: Broker(node, "127.0.0.1", 9092) for node in range(1, brokers + 1)},
            topics={topic: _topic(topic, brokers) for topic in held},
        )

    async def read_metadata(self, _topics: list[str]) -> ClusterMetadata:
        return self.metadata

    def leader(self, where: TopicPartition) -> Leader | None:
        return self.metadata.leader(where)

    async def connection(self, node: int, _purpose: str) -> Any:
        if node in self.unreachable:
            raise Disconnected(f"broker {node} cannot be reached")
        return SimpleNamespace(address=f"broker-{node}:9092", versions=self.versions)

    async def call(self, node: int, request: Any, _response: type[Any], **_: Any) -> Any:
        await self.connection(node, "control")
        self.asked.append(request.name)
        return getattr(self, f"_{request.name.removesuffix('Request')}")(node, request)

    def _Metadata(self, _node: int, request: Any) -> Any:
        assert request.include_topic_authorized_operations
        return SimpleNamespace(topics=[self._rights(topic.name) for topic in request.topics])

    def _rights(self, name: str) -> Any:
        there = self.held | self.own
        code = DENIED if name in self.hidden else 0 if name in there else GONE
        held = there.get(name)
        said = set(held) if held is not None and not code else None
        return SimpleNamespace(name=name, error_code=code, authorized_operations=said)

    def _DescribeCluster(self, _node: int, _request: Any) -> Any:
        held = self.cluster_rights
        return SimpleNamespace(
            error_code=0,
            authorized_operations=None if held is None else set(held),
            brokers=range(self.registered),
        )

    def _WriteTxnMarkers(self, node: int, request: Any) -> Any:
        code = self.marker_codes[node]
        if isinstance(code, Exception):
            raise code
        (marker,) = request.markers
        (topic,) = marker.topics
        assert not re.fullmatch(r"[\w.-]+", topic.name), "a marker may only be tried where no topic can be"
        topics = [SimpleNamespace(name=topic.name, partitions=[SimpleNamespace(error_code=code)])]
        return SimpleNamespace(markers=[SimpleNamespace(producer_id=marker.producer_id, topics=topics)])

    def _InitProducerId(self, _node: int, request: Any) -> Any:
        assert request.transaction_timeout_ms == 0, (
            "a transactional id may only be tried where no producer is made"
        )
        if not self.knows_transactions:
            raise BrokerRefused("offers no version of InitProducerId", code=ErrorCode.UNSUPPORTED_VERSION)
        may = request.transactional_id in self.transactional_ids
        code = (
            ErrorCode.INVALID_TRANSACTION_TIMEOUT if may else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        )
        return SimpleNamespace(error_code=code)

    def _DeleteRecords(self, _node: int, request: Any) -> Any:
        assert all(partition.offset == 0 for topic in request.topics for partition in topic.partitions)

        def code(name: str) -> int:
            held = self.held.get(name, EVERY_RIGHT) or EVERY_RIGHT
            return DENIED if Right.DELETE not in held or name in self.hidden else GONE

        topics = [
            SimpleNamespace(name=topic.name, partitions=[SimpleNamespace(error_code=code(topic.name))])
            for topic in request.topics
        ]
        return SimpleNamespace(topics=topics)

    def _CreateTopics(self, _node: int, request: Any) -> Any:
        assert request.validate_only

        def answer(name: str) -> Any:
            code, words = self.own_creation if name in OWN_TOPICS else self.creation
            return SimpleNamespace(name=name, error_code=code, error_message=words)

        def judged(topic: Any) -> Any:
            refused = {each.name for each in topic.configs} & self.refused_configs
            if topic.name not in OWN_TOPICS and refused:
                words = f"{min(refused)} is fixed by this cluster's policy"
                return SimpleNamespace(
                    name=topic.name, error_code=int(ErrorCode.POLICY_VIOLATION), error_message=words
                )
            return answer(topic.name)

        return SimpleNamespace(topics=[judged(topic) for topic in request.topics])

    def _Heartbeat(self, _node: int, _request: Any) -> Any:
        return SimpleNamespace(error_code=self.heartbeat)

    def _DescribeProducers(self, _node: int, request: Any) -> Any:
        def answer(topic: Any) -> Any:
            code = self._rights(topic.name).error_code
            if topic.name in OWN_TOPICS and self.own_unreadable:
                code = DENIED
            (number,) = topic.partition_indexes
            state = SimpleNamespace(partition_index=number, error_code=code, active_producers=[])
            return SimpleNamespace(name=topic.name, partitions=[state])

        return SimpleNamespace(topics=[answer(topic) for topic in request.topics])

    def _ListOffsets(self, _node: int, request: Any) -> Any:
        assert request.replica_id >= 0
        (topic,) = request.topics
        (asked,) = topic.partitions
        answer = SimpleNamespace(partition_index=asked.partition_index, error_code=self.end_error, offset=7)
        return SimpleNamespace(topics=[SimpleNamespace(name=topic.name, partitions=[answer])])

    def _DescribeConfigs(self, node: int, request: Any) -> Any:
        if request.resources[0].resource_type == 2:
            codes = {r.resource_name: self._rights(r.resource_name).error_code for r in request.resources}
            results = [SimpleNamespace(resource_name=name, error_code=code) for name, code in codes.items()]
            return SimpleNamespace(results=results)
        expiry = self.expiries[node]
        if isinstance(expiry, Exception):
            raise expiry
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if expiry < 0 else 0
        values = {
            "producer.id.expiration.ms": expiry,
            "offsets.topic.replication.factor": self.offsets_replication,
        }
        configs = [
            SimpleNamespace(name=key, value=None if values[key] is None else str(values[key]))
            for key in request.resources[0].configuration_keys
            if key in values and not code
        ]
        return SimpleNamespace(results=[SimpleNamespace(error_code=code, configs=configs)])


def _topic(name: str, brokers: int) -> TopicMetadata:
    leaders = {number: Leader(number + 1, 0) for number in range(brokers)}
    return TopicMetadata(
        name=name, topic_id="", internal=False, error=0, leaders=leaders, replication_factor=1
    )


def check(
    source: FakeCluster,
    target: FakeCluster,
    *,
    link: Link = LINK,
    one_cluster: bool = False,
    sights: Mapping[str, PartitionSight] | None = None,
) -> tuple[Finding, ...]:
    """`sights`: of topics whose only partition is not as ever."""
    seen = snapshot(
        *(source_topic(name, [s] if (s := (sights or {}).get(name)) else []) for name in source.held),
        link=link,
        target_id=SF_ID if one_cluster else NYC_ID,
        targets=[target_topic(name) for name in target.held],
        state_lasts_ms=None if target.hides_expiry else DAY_MS,
    )
    return asyncio.run(preflight(link, cast(ClusterClient, source), cast(ClusterClient, target), seen))


def clusters(*topics: str, brokers: int = 1) -> tuple[FakeCluster, FakeCluster]:
    """Source and target with these topics on both, and every right."""
    rights = dict.fromkeys(topics or ("orders",), EVERY_RIGHT)
    return FakeCluster("sf", rights, brokers=brokers), FakeCluster("nyc", rights, brokers=brokers)


def test_where_nothing_is_missing_nothing_is_found() -> None:
    assert check(*clusters("orders", "payments", brokers=3)) == ()


@pytest.mark.parametrize("highest", [9, 11, 12])
def test_a_source_that_cannot_be_asked_for_topic_ids_is_told_where_topics_are_to_be_deleted(
    highest: int,
) -> None:
    source, target = clusters(brokers=3)
    source.versions = {**source.versions, ApiKey.METADATA: (0, highest)}
    assert check(source, target) == ()
    deleting = replace(DEFAULT_POLICY, on_source_delete=OnSourceDelete.DELETE)
    found = check(source, target, link=replace(LINK, policy=deleting))
    assert len(found) == (1 if highest < 12 else 0)
    for each in found:
        assert each.severity is Severity.WARNING
        assert "on_source_delete: delete has no effect" in each.message
        assert each.hint == "set on_source_delete: keep for link sf-to-nyc"


@pytest.mark.parametrize("right", [Right.READ, Right.DESCRIBE_CONFIGS])
def test_a_right_that_the_source_lacks_is_named_with_the_line_that_grants_it(right: Right) -> None:
    source, target = clusters()
    source.held["orders"] = EVERY_RIGHT - {right}
    (found,) = check(source, target)
    assert (found.severity, found.cluster, found.right, found.topics) == (
        Severity.ERROR,
        "sf",
        right,
        ("orders",),
    )
    words = {Right.READ: "Read", Right.DESCRIBE_CONFIGS: "DescribeConfigs"}[right]
    assert found.hint == (
        "kafka-acls.sh --bootstrap-server 127.0.0.1:9092 --add --allow-principal User:ANONYMOUS"
        f" --operation {words} --topic orders"
    )


@pytest.mark.parametrize("right", [Right.READ, Right.WRITE, Right.DESCRIBE_CONFIGS])
def test_a_right_that_the_target_lacks_is_named(right: Right) -> None:
    source, target = clusters()
    target.held["orders"] = EVERY_RIGHT - {right}
    (found,) = check(source, target)
    assert (found.cluster, found.right, found.resource, found.names) == (
        "nyc",
        right,
        Resource.TOPIC,
        ("orders",),
    )


def test_many_topics_that_lack_one_right_are_one_finding_with_five_names() -> None:
    names = [f"topic-{number:03}" for number in range(250)]
    source, target = clusters(*names)
    target.held = dict.fromkeys(names, frozenset({Right.READ, Right.DESCRIBE, Right.DESCRIBE_CONFIGS}))
    (found,) = check(source, target)
    assert found.topics == tuple(names)
    assert "topic-000, topic-001, topic-002, topic-003, topic-004 and 245 more" in found.message
    assert "topic-005" not in str(found)
    assert found.hint.endswith("# and 245 more")


def test_everything_that_is_missing_is_told_at_once_errors_first() -> None:
    source, target = clusters()
    source.held["orders"] = frozenset({Right.DESCRIBE})
    target.held["orders"] = frozenset({Right.DESCRIBE, Right.READ})
    target.heartbeat = ErrorCode.GROUP_AUTHORIZATION_FAILED
    target.hides_expiry = True
    found = check(source, target)
    assert [(f.severity, f.cluster, f.right, f.resource) for f in found] == [
        (Severity.ERROR, "sf", Right.READ, Resource.TOPIC),
        (Severity.ERROR, "sf", Right.DESCRIBE_CONFIGS, Resource.TOPIC),
        (Severity.ERROR, "nyc", Right.WRITE, Resource.TOPIC),
        (Severity.ERROR, "nyc", Right.DESCRIBE_CONFIGS, Resource.TOPIC),
        (Severity.ERROR, "nyc", Right.READ, Resource.GROUP),
        (Severity.WARNING, "nyc", Right.DESCRIBE_CONFIGS, Resource.CLUSTER),
    ]


def test_the_groups_that_must_be_readable_are_those_of_the_election() -> None:
    source, target = clusters()
    target.heartbeat = ErrorCode.GROUP_AUTHORIZATION_FAILED
    (found,) = check(source, target)
    assert found.names == ("heliograph.sf-cluster-id", "heliograph.sf-to-nyc.sf-cluster-id")
    assert "--group heliograph.sf-cluster-id --group heliograph.sf-to-nyc.sf-cluster-id" in found.hint
    assert found.topics == ()  # it is about the link as a whole


def test_brokers_that_do_not_tell_rights_are_warned_of_and_not_judged() -> None:
    source, target = clusters()
    source.held["orders"] = None
    (found,) = check(source, target)
    assert (found.severity, found.cluster, found.right) == (Severity.WARNING, "sf", None)
    assert "not checked" in found.message


def test_a_source_topic_that_the_config_names_and_nobody_may_see_is_told() -> None:
    source, target = clusters()
    source.hidden = {"secret"}
    link = Link(name="sf-to-nyc", source="sf", target="nyc", topics=("orders", "secret", "later", "x.*"))
    (found,) = check(source, target, link=link)
    assert (found.right, found.topics) == (Right.DESCRIBE, ("secret",))


def test_a_target_topic_that_must_be_created_needs_the_right_to() -> None:
    source, target = FakeCluster("sf", {"orders": EVERY_RIGHT}), FakeCluster("nyc", {})
    assert check(source, target) == ()
    target.creation = (DENIED, "Authorization failed.")
    (found,) = check(source, target)
    assert (found.severity, found.right, found.topics) == (Severity.ERROR, Right.CREATE, ("orders",))


def test_a_creation_that_a_policy_forbids_is_told_in_the_brokers_words() -> None:
    source, target = FakeCluster("sf", {"orders": EVERY_RIGHT}), FakeCluster("nyc", {})
    target.creation = (ErrorCode.POLICY_VIOLATION, "names begin with a team")
    (found,) = check(source, target)
    assert found.severity is Severity.WARNING
    assert "POLICY_VIOLATION: names begin with a team" in found.message


def compacted_snapshot() -> LinkSnapshot:
    compact = {"cleanup.policy": "compact"}
    return snapshot(
        source_topic("users", config=config(compact, **compact)),
        source_topic("orders"),
        link=LINK,
        targets=[],
        state_lasts_ms=DAY_MS,
    )


def check_compacted(target: FakeCluster) -> tuple[LinkSnapshot, tuple[Finding, ...]]:
    source, seen = FakeCluster("sf", dict.fromkeys(("users", "orders"), EVERY_RIGHT)), compacted_snapshot()
    found = asyncio.run(preflight(LINK, cast(ClusterClient, source), cast(ClusterClient, target), seen))
    return seen, found


def test_a_compacted_topic_whose_build_settings_are_refused_stops_with_build_and_others_go_on() -> None:
    target = FakeCluster("nyc", {})
    target.refused_configs = {"segment.ms"}
    seen, (found,) = check_compacted(target)
    assert (found.severity, found.topics, found.reason) == (Severity.ERROR, ("users",), StopReason.BUILD)
    assert "segment.ms is fixed by this cluster's policy" in found.message
    assert "segment.ms=" in found.hint
    todo = plan([seen], [found])
    assert [(each.partition.source_topic, each.why.reason) for each in todo.refusals] == [
        ("users", StopReason.BUILD)
    ]
    assert [each.topic for each in todo.creations] == ["orders"]


def test_a_compacted_topic_that_is_refused_whatever_its_settings_are_is_no_matter_of_its_build() -> None:
    target = FakeCluster("nyc", {})
    target.creation = (ErrorCode.POLICY_VIOLATION, "names begin with a team")
    _, (found,) = check_compacted(target)
    assert (found.severity, found.topics) == (Severity.WARNING, ("orders", "users"))


def test_a_config_that_the_target_does_not_know_is_no_obstacle_to_creation() -> None:
    source, target = FakeCluster("sf", {"orders": EVERY_RIGHT}), FakeCluster("nyc", {})
    target.creation = (ErrorCode.INVALID_CONFIG, "Unknown topic config name: message.timestamp.after.max.ms")
    assert check(source, target) == ()


@pytest.mark.parametrize("cluster_rights", [None, frozenset(), frozenset({Right.DESCRIBE, Right.CREATE})])
def test_the_right_to_write_a_new_topic_is_doubted_unless_every_right_is_there(
    cluster_rights: frozenset[int] | None,
) -> None:
    source, target = FakeCluster("sf", {"orders": EVERY_RIGHT}), FakeCluster("nyc", {})
    target.cluster_rights = cluster_rights
    (found,) = check(source, target)
    assert found.severity is Severity.WARNING
    assert "cannot be known before" in found.message


def test_a_new_topic_that_may_not_be_seen_lacks_all_that_can_be_asked() -> None:
    source, target = FakeCluster("sf", {"orders": EVERY_RIGHT}), FakeCluster("nyc", {})
    target.hidden = {"orders"}
    assert {f.right for f in check(source, target)} == {Right.DESCRIBE, Right.READ, Right.DESCRIBE_CONFIGS}


def test_one_cluster_at_both_ends_is_said_once_and_its_topics_are_not_judged_as_targets() -> None:
    source, target = clusters("orders", "payments")
    target.held = dict.fromkeys(target.held, frozenset[int]())
    (found,) = check(source, target, one_cluster=True)
    assert found.severity is Severity.ERROR
    assert f"same Kafka cluster ({SF_ID})" in found.message


def test_a_target_before_2_8_is_refused_with_what_it_lacks() -> None:
    source, target = clusters()
    del target.versions[ApiKey.DESCRIBE_PRODUCERS]
    (found,) = check(source, target)
    assert found.severity is Severity.ERROR
    assert "offers no version of DescribeProducers" in found.message
    assert "Kafka 2.8" in found.hint


def test_a_source_before_0_11_lacks_nothing() -> None:
    source, target = clusters()
    source.versions[ApiKey.FETCH] = (0, 0)
    del source.versions[ApiKey.DESCRIBE_CONFIGS]
    assert check(source, target) == ()


def test_a_target_before_0_11_is_refused_with_what_it_lacks() -> None:
    source, target = clusters()
    target.versions[ApiKey.FETCH] = (0, 3)
    (found,) = check(source, target)
    assert (found.severity, found.cluster) == (Severity.ERROR, "nyc")
    assert "offers versions 0 to 3 of Fetch" in found.message


def test_a_broker_that_cannot_be_reached_from_here_is_a_warning_that_names_it() -> None:
    source, target = clusters(brokers=3)
    target.unreachable = {2}
    (found,) = check(source, target)
    assert (found.severity, found.message) == (Severity.WARNING, "broker 2 cannot be reached")
    assert "advertised.listeners" in found.hint


def test_a_cluster_of_which_no_broker_can_be_reached_is_unreachable() -> None:
    source, target = clusters(brokers=2)
    target.unreachable = {1, 2}
    with pytest.raises(ClusterUnreachable, match="cannot be reached"):
        check(source, target)


def test_every_broker_that_leads_is_asked_once_what_a_copier_asks() -> None:
    source, target = clusters("a", "b", "c", brokers=3)
    check(source, target)
    assert target.asked.count("ListOffsetsRequest") == 3
    assert target.asked.count("DescribeProducersRequest") == 3


@pytest.mark.parametrize(
    ("code", "severity"),
    [(ErrorCode.INVALID_REQUEST, Severity.ERROR), (ErrorCode.NOT_LEADER_OR_FOLLOWER, Severity.WARNING)],
)
def test_a_target_that_does_not_tell_where_its_logs_end_is_found(code: int, severity: Severity) -> None:
    source, target = clusters(brokers=2)
    target.end_error = code
    (found,) = check(source, target)
    assert found.severity is severity
    assert "orders:0, orders:1 cannot be read" in found.message


def test_nothing_is_asked_of_a_topic_that_may_not_be_read() -> None:
    source, target = clusters()
    target.held["orders"] = EVERY_RIGHT - {Right.READ}
    check(source, target)
    assert "ListOffsetsRequest" not in target.asked


# -- topics with transactions, and logs that start above 0

UNMARKED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
NEW_ABOVE_0 = source_sight(5, 100)
BEING_ALIGNED = PartitionSight(
    source=span(500, 900), source_end=900, target=span(100, 200), ends_in_filler=True, unreadable="written"
)


def test_missing_rights_to_fill_gaps_are_a_warning_that_says_what_stops_and_when() -> None:
    source, target = clusters("orders", "payments")
    target.marker_codes[1] = UNMARKED
    (found,) = check(source, target)
    assert (found.severity, found.right, found.resource) == (Severity.WARNING, Right.ALTER, Resource.CLUSTER)
    assert found.message == (
        "ALTER or CLUSTER_ACTION on the cluster is missing, and so is WRITE on transactional ids"
        " heliograph.sf-cluster-id.*: topics with transactions stop at their first gap (of orders, payments)"
    )
    add = "kafka-acls.sh --bootstrap-server 127.0.0.1:9092 --add --allow-principal User:ANONYMOUS --operation"
    assert found.hint == (
        f"{add} Write --transactional-id heliograph.sf-cluster-id. --resource-pattern-type prefixed"
        f"  # or, much quicker: {add} Alter --cluster  # before Kafka 3.8: --operation ClusterAction"
    )


def test_the_warning_names_the_topics_whose_losses_cannot_be_filled_either() -> None:
    source, target = clusters("orders", "payments")
    target.marker_codes[1] = UNMARKED
    lossy = TopicPolicy(match="payments", policy=replace(DEFAULT_POLICY, on_loss=OnLoss.CONTINUE))
    (found,) = check(source, target, link=replace(LINK, policies=(lossy,)))
    assert found.severity is Severity.WARNING
    assert found.message.endswith(
        "topics with transactions stop at their first gap (of orders, payments), and at records that were lost"
        " although on_loss is continue (of payments)"
    )


def test_without_markers_gaps_are_filled_by_transactions_that_are_allowed() -> None:
    source, target = clusters("orders", "payments")
    target.marker_codes[1] = UNMARKED
    target.transactional_ids = {f"heliograph.{SF_ID}.{topic}.0" for topic in ("orders", "payments")}
    assert check(source, target) == ()
    filling = gap_filling(target, "orders", "payments")
    assert (filling.way, filling.barred) == (GapWay.TRANSACTIONS, frozenset())
    assert filling.fill_way("orders") is FillWay.TRANSACTIONS


def test_topics_whose_transactional_ids_are_not_allowed_are_named_and_the_others_filled() -> None:
    source, target = clusters("orders", "payments")
    target.marker_codes[1] = UNMARKED
    target.transactional_ids = {f"heliograph.{SF_ID}.orders.0"}
    (found,) = check(source, target)
    assert (found.severity, found.right, found.resource) == (
        Severity.WARNING,
        Right.WRITE,
        Resource.TRANSACTIONAL_ID,
    )
    assert found.message == (
        "WRITE on transactional ids of topic payments is missing: topics with transactions stop at their first gap"
        " (of payments)"
    )
    assert found.topics == ()  # its other records are mirrored
    filling = gap_filling(target, "orders", "payments")
    assert [filling.fill_way(topic) for topic in ("orders", "payments")] == [
        FillWay.TRANSACTIONS,
        FillWay.NONE,
    ]


def test_a_compacted_topic_is_not_filled_where_no_marker_can_end_that() -> None:
    target = FakeCluster("nyc", {})
    target.marker_codes[1] = UNMARKED
    seen, (found, *_) = check_compacted(target)
    assert (found.severity, found.reason, found.topics) == (Severity.ERROR, StopReason.BUILD, ("users",))
    assert "the compacted topic users cannot be built: its last hole needs a marker" in found.message
    assert "--transactional-id heliograph.sf-cluster-id." in found.hint
    made = plan([seen], [found])
    assert [(each.partition.source_topic, each.why.reason) for each in made.refusals] == [
        ("users", StopReason.BUILD)
    ]
    assert [copy.spec.partition.source_topic for copy in made.copies] == ["orders"]


@pytest.mark.parametrize(
    ("own", "sight"),
    [
        ({}, source_sight(0, 0)),  # no record, no hole
        ({"cleanup.policy": "compact"}, source_sight(0, 9)),
        ({**with_build({}), "cleanup.policy": "compact"}, source_sight(0, 9)),  # its marker is there
    ],
)
def test_a_compacted_topic_that_needs_no_marker_to_be_built_only_warns(
    own: dict[str, str], sight: PartitionSight
) -> None:
    compact = {"cleanup.policy": "compact"}
    source, target = clusters("users")
    target.marker_codes[1] = UNMARKED
    topic = source_topic("users", [sight], config=config(compact))
    seen = snapshot(topic, targets=[target_topic("users", own=own)] if own else [])
    target.held = target.held if own else {}
    found = asyncio.run(preflight(LINK, cast(ClusterClient, source), cast(ClusterClient, target), seen))
    assert {each.severity for each in found} == {Severity.WARNING}


def test_the_way_of_a_link_is_in_the_spec_of_each_partition() -> None:
    by = GapFilling(way=GapWay.TRANSACTIONS, barred=frozenset({"payments"}))
    seen = replace(snapshot(source_topic("orders"), source_topic("payments")), gaps=by)
    specs = {each.spec.partition.source_topic: each.spec for each in plan([seen]).copies}
    assert specs["orders"].fill_way is FillWay.TRANSACTIONS
    assert specs["payments"].fill_way is FillWay.NONE
    assert specs["orders"].transactional_id == f"heliograph.{SF_ID}.orders.0"
    (unasked,) = plan([snapshot(source_topic())]).copies
    assert unasked.spec.fill_way is FillWay.MARKERS


def test_brokers_that_know_no_markers_are_a_warning_without_a_right() -> None:
    source, target = clusters()
    unsupported = ErrorCode.UNSUPPORTED_VERSION
    target.marker_codes[1] = BrokerRefused("offers no version of WriteTxnMarkers", code=unsupported)
    target.knows_transactions = False
    (found,) = check(source, target)
    assert (found.severity, found.right) == (Severity.WARNING, None)
    assert found.message.startswith("offers no version of WriteTxnMarkers: topics with transactions stop")
    assert str(gap_filling(target)) == "cannot be filled: offers no version of WriteTxnMarkers"


def test_one_broker_that_takes_no_markers_is_enough_to_be_warned() -> None:
    source, target = clusters(brokers=3)
    target.marker_codes[2] = UNMARKED
    assert [found.right for found in check(source, target)] == [Right.ALTER]


def test_a_link_without_topics_needs_no_markers() -> None:
    source, target = FakeCluster("sf", {}), FakeCluster("nyc", {})
    target.marker_codes[1] = UNMARKED
    assert check(source, target) == ()


@pytest.mark.parametrize(
    ("rights", "granted"),
    [
        (EVERY_RIGHT, Right.ALTER),
        (frozenset({Right.DESCRIBE, Right.CLUSTER_ACTION}), Right.CLUSTER_ACTION),
        (frozenset[int](), Right.CLUSTER_ACTION),  # who has ALTER would be told so
        (None, None),
    ],
)
def test_the_right_by_which_markers_are_written_is_named(
    rights: frozenset[int] | None, granted: Right | None
) -> None:
    _, target = clusters()
    target.cluster_rights = rights
    filling = gap_filling(target)
    assert (filling.way, filling.granted) == (GapWay.MARKERS, granted)


def test_how_gaps_are_filled_is_not_known_while_no_broker_says() -> None:
    _, target = clusters()
    target.marker_codes[1] = ErrorCode.UNKNOWN_SERVER_ERROR
    assert str(gap_filling(target)) == "not known: broker 1 answers UNKNOWN_SERVER_ERROR"
    target.unreachable = {1}
    assert str(gap_filling(target)) == "not known: broker 1 cannot be reached"


def gap_filling(target: FakeCluster, *topics: str) -> GapFilling:
    return asyncio.run(read_gap_filling(cast(ClusterClient, target), SF_ID, topics))


@pytest.mark.parametrize("sight", [NEW_ABOVE_0, BEING_ALIGNED])
def test_a_topic_that_is_aligned_needs_the_right_to_delete(sight: PartitionSight) -> None:
    source, target = clusters("orders", "payments")
    target.held = dict.fromkeys(target.held, EVERY_RIGHT - {Right.DELETE})
    (found,) = check(source, target, sights={"orders": sight})
    assert (found.severity, found.right, found.topics) == (Severity.ERROR, Right.DELETE, ("orders",))
    assert "begins above offset 0" in found.message
    assert found.hint.endswith("--operation Delete --topic orders")


def test_a_topic_that_is_not_there_yet_needs_the_right_to_delete_if_its_source_starts_above_0() -> None:
    source, target = FakeCluster("sf", {"orders": EVERY_RIGHT}), FakeCluster("nyc", {})
    target.hidden = {"orders"}
    rights = {found.right for found in check(source, target, sights={"orders": NEW_ABOVE_0})}
    assert Right.DELETE in rights
    assert Right.DELETE not in {found.right for found in check(source, target)}


@pytest.mark.parametrize(
    ("start", "severities"),
    [
        ("earliest", []),
        ("latest", [Severity.ERROR]),
        ("-7d", [Severity.WARNING]),  # which offset that is nobody has asked yet
    ],
)
def test_a_new_mirror_that_begins_later_needs_the_right_to_delete(
    start: str, severities: list[Severity]
) -> None:
    source, target = clusters()
    target.held["orders"] = EVERY_RIGHT - {Right.DELETE}
    link = replace(LINK, policy=replace(LINK.policy, start=start))
    found = check(source, target, link=link, sights={"orders": source_sight(0, 100)})
    assert [each.severity for each in found if each.right is Right.DELETE] == severities
    assert all(each.topics == ("orders",) for each in found if each.right is Right.DELETE)
    assert (
        check(source, target, link=link, sights={"orders": source_sight(0, 0)}) == ()
    )  # nothing is left out
    under_way = mirrored_sight(source_end=100, target_end=40)
    assert check(source, target, link=link, sights={"orders": under_way}) == ()


def test_a_mirror_that_is_past_its_sources_start_needs_no_right_to_delete() -> None:
    source, target = clusters()
    target.held["orders"] = EVERY_RIGHT - {Right.DELETE}
    under_way = replace(mirrored_sight(source_end=100, target_end=40), source=span(5, 100))
    assert check(source, target, sights={"orders": under_way}) == ()
    assert "DeleteRecordsRequest" not in target.asked


# -- the offsets topic


def test_an_offsets_topic_that_cannot_be_made_is_told_before_an_election_hangs() -> None:
    source, target = clusters()
    target.offsets_replication = 3
    (found,) = check(source, target)
    assert found.severity is Severity.WARNING
    assert "offsets.topic.replication.factor is 3, its brokers are 1" in found.message
    assert "__consumer_offsets does not exist" in found.message
    assert found.hint.startswith("offsets.topic.replication.factor=1 ")


def test_an_offsets_topic_that_may_not_be_seen_is_doubted() -> None:
    source, target = clusters()
    target.offsets_replication = 3
    target.hidden = {"__consumer_offsets"}
    (found,) = check(source, target)
    assert "may not exist" in found.message


def test_groups_work_where_the_offsets_topic_is_there_or_can_be_made() -> None:
    source, target = clusters()
    target.offsets_replication, target.registered = 3, 3  # two of them are down
    assert check(source, target) == ()
    target.registered = 1
    target.held["__consumer_offsets"] = EVERY_RIGHT
    assert check(source, target) == ()
    target.offsets_replication = None  # the broker does not say
    assert check(source, target) == ()


# -- Heliograph's own topics

OWN_GRANT = (
    "kafka-acls.sh --bootstrap-server 127.0.0.1:9092 --add --allow-principal User:ANONYMOUS --operation Create"
    " --operation Read --operation Write --topic __heliograph_ --resource-pattern-type prefixed"
)
ALL_OWN = (COMMANDS_TOPIC, EVENTS_TOPIC, LEDGER_TOPIC)
FROM_NOW = replace(DEFAULT_POLICY, start="latest")
FEW_RIGHTS = frozenset({Right.DESCRIBE})


def test_without_any_right_to_our_topics_one_warning_says_what_does_not_work_and_grants_it_all() -> None:
    source, target = clusters()
    target.own, target.hidden = {}, set(OWN_TOPICS)
    target.own_creation = (DENIED, "Authorization failed.")
    (found,) = check(source, target)
    assert (found.severity, found.cluster, found.names) == (Severity.WARNING, "nyc", ALL_OWN)
    assert (found.right, found.resource) == (Right.READ, Resource.TOPIC)
    assert found.message == (
        "CREATE, READ, WRITE on topic __heliograph_commands, __heliograph_events, __heliograph_ledger is missing:"
        " stops and pauses are forgotten when the mirror is started again, and only start: earliest works;"
        " commands of heliograph topics are not carried out; events are in the run's log only; all else is mirrored"
    )
    assert found.hint == OWN_GRANT


@pytest.mark.parametrize(
    ("topic", "right", "consequence"),
    [
        (LEDGER_TOPIC, Right.WRITE, "stops and pauses are forgotten"),
        (LEDGER_TOPIC, Right.READ, "stops and pauses are forgotten"),
        (COMMANDS_TOPIC, Right.READ, "commands of heliograph topics are not carried out"),
        (EVENTS_TOPIC, Right.WRITE, "events are in the run's log only"),
    ],
)
def test_a_right_that_one_of_our_topics_lacks_costs_what_that_topic_is_for(
    topic: str, right: Right, consequence: str
) -> None:
    source, target = clusters()
    target.own[topic] = EVERY_RIGHT - {right}
    (found,) = check(source, target)
    assert (found.severity, found.right, found.names) == (Severity.WARNING, right, (topic,))
    assert found.message.startswith(f"{right.name} on topic {topic} is missing: {consequence}")


def test_topics_of_ours_that_lack_different_rights_are_told_together() -> None:
    source, target = clusters()
    target.own[EVENTS_TOPIC] = EVERY_RIGHT - {Right.WRITE}
    target.own[LEDGER_TOPIC] = target.own[COMMANDS_TOPIC] = FEW_RIGHTS
    (found,) = check(source, target)
    assert found.message.startswith(
        "READ, WRITE on topic __heliograph_commands, __heliograph_ledger is missing;"
        " WRITE on topic __heliograph_events is missing: "
    )


def test_where_every_right_is_there_our_topics_need_not_be() -> None:
    source, target = clusters()
    target.own = {}
    assert check(source, target) == ()
    assert "CreateTopicsRequest" not in target.asked


@pytest.mark.parametrize("by", ["creation", "reading"])
def test_topics_of_ours_that_are_not_there_need_the_right_to_create_and_to_read(by: str) -> None:
    source, target = clusters()
    target.own, target.cluster_rights = {}, FEW_RIGHTS
    target.own_creation = (DENIED, "Authorization failed.") if by == "creation" else (0, "")
    target.own_unreadable = by == "reading"
    (found,) = check(source, target)
    assert (found.severity, found.names) == (Severity.WARNING, ALL_OWN)
    assert found.right is {"creation": Right.CREATE, "reading": Right.READ}[by]


def test_whether_topics_of_ours_can_be_written_is_not_guessed() -> None:
    source, target = clusters()
    target.own, target.cluster_rights = {}, FEW_RIGHTS
    (absent,) = check(source, target)
    assert (absent.severity, absent.right, absent.names) == (Severity.WARNING, None, ALL_OWN)
    assert "is not known yet" in absent.message
    assert absent.hint.startswith(OWN_GRANT)
    target.own = dict.fromkeys(OWN_TOPICS)
    (unsaid,) = check(source, target)
    assert unsaid == absent


def test_a_topic_of_ours_that_a_policy_forbids_is_told_in_the_brokers_words() -> None:
    source, target = clusters()
    target.cluster_rights = FEW_RIGHTS
    del target.own[COMMANDS_TOPIC]
    target.own_creation = (ErrorCode.POLICY_VIOLATION, "names begin with a team")
    found = check(source, target)
    assert {each.severity for each in found} == {Severity.WARNING}
    (forbidden,) = [each for each in found if "POLICY_VIOLATION: names begin with a team" in each.message]
    assert forbidden.names == (COMMANDS_TOPIC,)


def test_a_topic_that_does_not_begin_at_its_sources_start_cannot_do_without_the_ledger() -> None:
    source, target = clusters("orders", "payments")
    target.own[LEDGER_TOPIC] = FEW_RIGHTS
    link = replace(LINK, policies=(TopicPolicy(match="pay.*", policy=FROM_NOW),))
    error, warning = check(source, target, link=link)
    assert (error.severity, error.names) == (Severity.ERROR, ("payments",))
    assert error.message.startswith(
        "READ, WRITE on topic __heliograph_ledger is missing: topic payments has a start"
    )
    assert error.hint == OWN_GRANT
    assert (warning.severity, warning.names) == (Severity.WARNING, (LEDGER_TOPIC,))


def test_a_link_that_does_not_begin_at_its_sources_start_needs_the_ledger_and_nothing_else_of_ours() -> None:
    source, target = clusters("orders", "payments")
    link = replace(LINK, naming="prefix", policy=FROM_NOW)
    target.held = dict.fromkeys(("sf.orders", "sf.payments"), EVERY_RIGHT)
    assert check(source, target, link=link) == ()
    target.own[COMMANDS_TOPIC] = target.own[EVENTS_TOPIC] = FEW_RIGHTS
    assert {each.severity for each in check(source, target, link=link)} == {Severity.WARNING}
    target.own[LEDGER_TOPIC] = FEW_RIGHTS
    (error,) = [each for each in check(source, target, link=link) if each.severity is Severity.ERROR]
    assert error.names == ("sf.orders", "sf.payments")


def state_lasts(target: FakeCluster) -> int | None:
    return asyncio.run(read_state_lasts_ms(cast(ClusterClient, target)))


def test_the_least_expiry_of_all_brokers_counts() -> None:
    _, target = clusters(brokers=3)
    target.expiries = {1: DAY_MS, 2: 3_600_000, 3: 2 * DAY_MS}
    assert state_lasts(target) == 3_600_000


def test_a_broker_that_does_not_tell_its_expiry_counts_with_the_default() -> None:
    _, target = clusters(brokers=2)
    target.expiries = {1: 9 * DAY_MS, 2: Disconnected("gone")}
    assert state_lasts(target) == DAY_MS
    target.expiries = {1: 1000, 2: Disconnected("gone")}
    assert state_lasts(target) == 1000


def test_an_expiry_that_may_not_be_read_is_none() -> None:
    _, target = clusters()
    target.expiries = {1: -1}
    assert state_lasts(target) is None


def test_an_expiry_that_no_broker_tells_is_an_error() -> None:
    _, target = clusters()
    target.expiries = {1: Disconnected("gone")}
    with pytest.raises(Disconnected):
        state_lasts(target)


def test_a_list_of_names_ends_after_five() -> None:
    assert listed(["b", "a"]) == "a, b"
    assert listed("abcdefg") == "a, b, c, d, e and 2 more"
