"""With ZooKeeper only the controller makes and deletes topics: who it is may have changed (the client is a fake)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from kafka.protocol.admin import CreateTopicsResponse, DeleteTopicsResponse

from heliograph.cluster.admin import create_topic, delete_topic
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.metadata import Broker, ClusterMetadata
from heliograph.cluster.rights import try_creating
from heliograph.wire.error_codes import ErrorCode

from .peers import properties_for

TOPIC_ID = "11111111-2222-3333-4444-555555555555"


class ElectedAnew:
    """Broker 1 was the controller; broker 2 is, which a refresh tells."""

    name = "nyc"

    def __init__(self) -> None:
        self.properties = properties_for(1)
        brokers = {node: Broker(node, "127.0.0.1", node) for node in (1, 2, 3)}
        self.metadata = ClusterMetadata(cluster_id="nyc-id", controller=1, brokers=brokers)
        self.asked: list[int] = []

    async def refresh(self) -> None:
        self.metadata = replace(self.metadata, controller=2)

    async def call(self, node: int, _request: Any, response_class: Any) -> Any:
        self.asked.append(node)
        code = 0 if node == 2 else int(ErrorCode.NOT_CONTROLLER)
        if response_class is CreateTopicsResponse:
            topic = CreateTopicsResponse.CreatableTopicResult
            return CreateTopicsResponse(topics=[topic(name="orders", error_code=code, error_message=None)])
        result = DeleteTopicsResponse.DeletableTopicResult
        return DeleteTopicsResponse(responses=[result(name=None, error_code=code)])


async def test_a_topic_is_created_by_the_controller_of_now() -> None:
    client = ElectedAnew()
    made = await create_topic(
        cast(ClusterClient, client), "orders", partitions=1, replication_factor=1, configs={}
    )
    assert made
    assert client.asked == [1, 2]


async def test_a_topic_is_deleted_by_the_controller_of_now() -> None:
    client = ElectedAnew()
    await delete_topic(cast(ClusterClient, client), TOPIC_ID)
    assert client.asked == [1, 2]


async def test_whether_a_topic_can_be_created_is_asked_of_the_controller() -> None:
    client = ElectedAnew()
    assert await try_creating(cast(ClusterClient, client), {"orders": (1, 1, {})}) == {"orders": (0, "")}
    assert client.asked == [1, 2]
