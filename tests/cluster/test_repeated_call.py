"""What is asked again and again is encoded once, and decoded when something is new."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.consumer import ListOffsetsResponse
from kafka.protocol.metadata import MetadataResponse

from heliograph.cluster.metadata import from_response, request_for
from heliograph.cluster.repeated_call import RepeatedCall
from heliograph.model.errors import ProtocolError
from heliograph.wire.api_keys import ApiKey

VERSION = 9


class Broker:
    """Answers with `body`, whatever is asked."""

    address = "sf:9092"

    def __init__(self, version: int = VERSION) -> None:
        self.versions = {ApiKey.METADATA: (0, version)}
        self.version = version
        self.body = answer(1, version=version)
        self.requests: list[bytes] = []

    async def request(self, _key: int, version: int, parts: Any, **_: Any) -> memoryview:
        assert version == self.version
        self.requests.append(b"".join(parts))
        return memoryview(self.body)


def answer(controller: int, topic: str = "orders", version: int = VERSION) -> bytes:
    response = MetadataResponse(
        throttle_time_ms=0,
        brokers=[],
        cluster_id="sf-id",
        controller_id=controller,
        topics=[
            MetadataResponse.MetadataResponseTopic(name=topic, error_code=0, partitions=[], is_internal=False)
        ],
    )
    return bytes(response.encode(version=version))


async def ask(call: RepeatedCall[Any], broker: Any, *topics: str) -> Any:
    return await call(broker, topics, lambda: request_for(topics), timeout_ms=1000)


async def test_an_answer_that_came_before_gives_the_same_value() -> None:
    call, broker = RepeatedCall(MetadataResponse, from_response, kept=2), Broker()
    first = await ask(call, broker, "orders")
    assert list(first.topics) == ["orders"]
    assert await ask(call, broker, "orders") is first
    broker.body = answer(1, "payments")
    second = await ask(call, broker, "orders")
    assert list(second.topics) == ["payments"]
    broker.body = answer(1)
    assert await ask(call, broker, "orders") is first


async def test_another_question_is_asked_and_the_same_one_is_encoded_once() -> None:
    call, broker = RepeatedCall(MetadataResponse, from_response), Broker()
    made = 0

    def make(*topics: str) -> Any:
        nonlocal made
        made += 1
        return request_for(topics)

    connection: Any = broker
    for topics in (("orders",), ("orders",), ("payments",)):
        await call(connection, topics, lambda topics=topics: make(*topics), timeout_ms=1000)  # type: ignore[misc]
    assert made == 2
    orders, again, payments = broker.requests
    assert orders == again != payments
    assert b"payments" in payments


async def test_few_answers_are_kept_and_those_that_came_last() -> None:
    call, broker = RepeatedCall(MetadataResponse, from_response, kept=4), Broker()
    values = []
    for controller in range(5):
        broker.body = answer(controller)
        values.append(await ask(call, broker, "orders"))
    broker.body = answer(1)
    assert await ask(call, broker, "orders") is values[1]
    broker.body = answer(0)
    again = await ask(call, broker, "orders")
    assert again == values[0]
    assert again is not values[0]


async def test_brokers_of_two_versions_are_each_asked_in_theirs() -> None:
    call = RepeatedCall(MetadataResponse, from_response, kept=2)
    old, new = Broker(version=8), Broker()
    assert await ask(call, old, "orders") == await ask(call, new, "orders") == await ask(call, old, "orders")
    assert old.requests[0] == old.requests[1] != new.requests[0]


async def test_an_answer_that_cannot_be_read_is_not_kept() -> None:
    call, broker = RepeatedCall(ListOffsetsResponse, from_response), Broker()
    broker.body = b"\xff"
    for _ in range(2):
        with pytest.raises(ProtocolError):
            await ask(call, broker, "orders")
