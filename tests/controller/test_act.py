"""Act: topics are created with what the target knows, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest
from kafka.protocol.admin import CreateTopicsResponse

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.metadata import Broker, ClusterMetadata, Leader
from heliograph.cluster.properties import ClientProperties
from heliograph.controller import act
from heliograph.controller.act import Made, create
from heliograph.controller.plan import CreateTopic
from heliograph.controller.topic_config import TargetShape
from heliograph.model.errors import BrokerRefused, Disconnected, RequestFailed
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

AFTER, BEFORE = "message.timestamp.after.max.ms", "message.timestamp.before.max.ms"
MAX_LOOKS = 1_000  # a loop that never ends fails instead

Verdict = tuple[int, str | None]
Judge = Callable[[Mapping[str, str]], Verdict]


def broker_that_knows(*known: str) -> Judge:
    """Refuses, as Kafka's LogConfig does, the first config name that it does not know."""

    def judge(configs: Mapping[str, str]) -> Verdict:
        for name in configs:
            if name not in known:
                return ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}"
        return 0, None

    return judge


class Target:
    """A target cluster: `judge` decides about a creation, leaders appear after `looks` refreshes."""

    name = "nyc"
    properties = ClientProperties(bootstrap_servers=(("127.0.0.1", 9092),))
    metadata = ClusterMetadata(cluster_id="nyc-id", controller=1, brokers={1: Broker(1, "h", 9092)})

    def __init__(
        self, judge: Judge, *, looks: int = 1, trouble: Callable[[int], RequestFailed | None] | None = None
    ) -> None:
        self.judge, self.looks, self.trouble = judge, looks, trouble
        self.tried: list[dict[str, str]] = []
        self.asked: list[Any] = []
        self.followed: list[str] = []
        self.looked = 0

    async def call(self, _node: int, request: Any, _response: type[Any]) -> Any:
        (topic,) = request.topics
        self.asked.append(topic)
        self.tried.append({c.name: c.value for c in topic.configs})
        code, message = self.judge(self.tried[-1])
        result = CreateTopicsResponse.CreatableTopicResult(
            name=topic.name, error_code=int(code), error_message=message
        )
        return CreateTopicsResponse(topics=[result])

    def follow(self, topics: list[str]) -> None:
        self.followed += topics

    def leader(self, where: TopicPartition) -> Leader | None:
        return Leader(1, 0) if self.looked >= self.looks and where.topic in self.followed else None

    async def refresh(self) -> None:
        self.looked += 1
        assert self.looked < MAX_LOOKS
        problem = self.trouble(self.looked) if self.trouble else None
        if problem is not None:
            raise problem


def made(target: Target, **configs: str) -> Made:
    dotted = {name.replace("_", "."): value for name, value in configs.items()}
    shape = TargetShape(partitions=3, replication_factor=2, configs=dotted)
    creation = CreateTopic(link="sf-to-nyc", topic="orders", shape=shape)
    return asyncio.run(create(cast(ClusterClient, target), creation))


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(act, "LEADERS_POLL_S", 0.001)
    monkeypatch.setattr(act, "LEADERS_TIMEOUT_S", 0.1)


def test_a_topic_is_created_once_with_the_planned_shape() -> None:
    target = Target(broker_that_knows("retention.ms"))
    assert made(target, retention_ms="1000") == Made(new=True)
    (topic,) = target.asked
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("orders", 3, 2)
    assert target.tried == [{"retention.ms": "1000"}]


def test_a_config_that_the_target_does_not_know_is_left_out_with_a_warning() -> None:
    target = Target(broker_that_knows("retention.ms"))
    (warning,) = made(target, retention_ms="1000", message_timestamp_after_max_ms="1").warnings
    assert AFTER in warning
    assert "orders" in warning
    assert target.tried == [{AFTER: "1", "retention.ms": "1000"}, {"retention.ms": "1000"}]


def test_several_unknown_configs_are_left_out_one_after_the_other() -> None:
    target = Target(broker_that_knows("retention.ms"))
    found = made(
        target,
        retention_ms="1000",
        message_timestamp_after_max_ms="1",
        message_timestamp_before_max_ms="1",
        confluent_placement_constraints="x",
    )
    assert found.new
    assert len(found.warnings) == 3
    assert target.tried[-1] == {"retention.ms": "1000"}
    assert len(target.tried) == 4


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (ErrorCode.INVALID_CONFIG, "Invalid value -5 for configuration retention.ms: must be at least -1"),
        (ErrorCode.INVALID_CONFIG, "Unknown topic config name: something.we.did.not.send"),
        (ErrorCode.INVALID_CONFIG, None),
        (ErrorCode.POLICY_VIOLATION, "Unknown topic config name: retention.ms"),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None),
        (ErrorCode.INVALID_REPLICATION_FACTOR, "Unable to replicate the partition 2 time(s)"),
    ],
)
def test_any_other_refusal_is_told_in_the_brokers_words_and_not_tried_again(
    code: ErrorCode, message: str | None
) -> None:
    target = Target(lambda _: (code, message))
    with pytest.raises(BrokerRefused) as refused:
        made(target, retention_ms="1000")
    assert refused.value.code == code
    assert (message or "") in refused.value.message
    assert code.name in refused.value.message
    assert len(target.tried) == 1


def test_a_broker_that_never_has_enough_is_not_asked_for_ever() -> None:
    target = Target(lambda _: (ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {AFTER}"))
    with pytest.raises(BrokerRefused):
        made(target, message_timestamp_after_max_ms="1")
    assert len(target.tried) == 2


def test_a_topic_that_somebody_else_created_meanwhile_is_fine_and_not_new() -> None:
    target = Target(lambda _: (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'orders' already exists."))
    assert made(target) == Made(new=False)


def test_a_topic_is_ready_only_when_every_partition_has_a_leader() -> None:
    target = Target(broker_that_knows(), looks=5)
    assert made(target) == Made(new=True)
    assert target.looked == 5


def test_a_failing_look_for_leaders_is_tried_again() -> None:
    target = Target(
        broker_that_knows(), looks=3, trouble=lambda n: Disconnected("broker 1 is gone") if n < 3 else None
    )
    assert made(target) == Made(new=True)


def test_leaders_that_never_come_are_told_in_bounded_time() -> None:
    with pytest.raises(BrokerRefused, match="orders was created but has no leaders") as refused:
        made(Target(broker_that_knows(), looks=MAX_LOOKS))
    assert refused.value.code == ErrorCode.LEADER_NOT_AVAILABLE


def test_a_cluster_that_went_away_after_the_creation_is_told_as_that() -> None:
    target = Target(broker_that_knows(), looks=MAX_LOOKS, trouble=lambda _: Disconnected("broker 1 is gone"))
    with pytest.raises(Disconnected, match="broker 1 is gone"):
        made(target)
