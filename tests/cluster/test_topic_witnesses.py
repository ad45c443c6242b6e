"""Whether brokers know a topic: each is asked itself, by id and by name, and what it leaves unsaid is no answer."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from heliograph.cluster.metadata import Broker, ClusterMetadata
from heliograph.cluster.topic_witnesses import ask_witness, ask_witnesses
from heliograph.model.errors import BrokerRefused, Disconnected
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.error_codes import ErrorCode

from .peers import properties_for

ORDERS, CLICKS = "11111111-2222-3333-4444-555555555555", "66666666-7777-8888-9999-aaaaaaaaaaaa"
ASKED = {"orders": ORDERS, "clicks": CLICKS}
NO_ID = UUID(int=0)
UNKNOWN_ID, UNKNOWN_NAME = ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class PlayedBroker:
    """Its topics by name; `denied`: names that this client may not see. Answers as brokers do."""

    address = "127.0.0.1:9092"

    def __init__(self, topics: dict[str, str], denied: set[str], version: int) -> None:
        self.topics, self.denied = topics, denied
        self.versions = {ApiKey.METADATA: (0, version)}
        self.asked = 0
        self.error = 0

    async def request(self, _key: int, version: int, parts: list[bytes], **_: Any) -> memoryview:
        self.asked += 1
        request = MetadataRequest.decode(b"".join(parts), version=version)
        assert not request.allow_auto_topic_creation
        answered = [self._topic(each.name, str(each.topic_id)) for each in request.topics]
        answer = MetadataResponse(
            throttle_time_ms=0,
            brokers=[
                MetadataResponse.MetadataResponseBroker(node_id=n, host="h", port=1, rack=None)
                for n in (1, 2)
            ],
            cluster_id="sf-id",
            controller_id=1,
            topics=answered,
            error_code=self.error,
        )
        return memoryview(answer.encode(version=version))

    def _topic(self, name: str | None, topic_id: str) -> Any:
        ids = {of: each for each, of in self.topics.items()}
        if name is None:
            known = ids.get(topic_id)
            denied = known in self.denied
            code = UNKNOWN_ID if known is None else DENIED if denied else 0
            return self._answer(code, known if code == 0 else None, UUID(topic_id))
        if name in self.denied:
            return self._answer(DENIED, name, NO_ID)
        code = 0 if name in self.topics else UNKNOWN_NAME
        return self._answer(code, name, UUID(self.topics[name]) if code == 0 else NO_ID)

    def _answer(self, code: int, name: str | None, topic_id: UUID) -> Any:
        return MetadataResponse.MetadataResponseTopic(
            error_code=code, name=name, topic_id=topic_id, is_internal=False, partitions=[]
        )


class Cluster:
    """A client of these brokers; `away`: those that cannot be reached."""

    name = "sf"

    def __init__(self, *nodes: int, topics: dict[str, str] | None = None, version: int = 13) -> None:
        self.properties = properties_for(1)
        brokers = {node: Broker(node, "127.0.0.1", node) for node in nodes}
        self.metadata = ClusterMetadata(cluster_id="sf-id", controller=1, brokers=brokers)
        self.denied: set[str] = set()
        self.brokers = {node: PlayedBroker(topics or {}, self.denied, version) for node in nodes}
        self.away: set[int] = set()

    async def connection(self, node: int, _purpose: str) -> Any:
        if node in self.away:
            raise Disconnected(f"broker {node} is gone")
        return self.brokers[node]

    @property
    def made(self) -> Any:
        return self

    @property
    def asked(self) -> dict[int, int]:
        return {node: broker.asked // 2 for node, broker in self.brokers.items() if broker.asked}


@pytest.mark.parametrize("version", [12, 13])
async def test_a_broker_says_of_each_topic_what_it_knows_by_id_and_by_name(version: int) -> None:
    cluster = Cluster(1, topics={"orders": ORDERS}, version=version)
    said = await ask_witness(cluster.made, 1, ASKED)
    assert (said.node, said.cluster_id, said.brokers) == (1, "sf-id", 2)
    assert said.by_id == {ORDERS: 0, CLICKS: UNKNOWN_ID}
    assert said.by_name == {"orders": 0, "clicks": UNKNOWN_NAME}


async def test_a_topic_of_that_name_with_another_id_is_known_by_name_alone() -> None:
    said = await ask_witness(Cluster(1, topics={"orders": CLICKS}).made, 1, {"orders": ORDERS})
    assert (said.by_id[ORDERS], said.by_name["orders"]) == (UNKNOWN_ID, 0)


async def test_what_may_not_be_seen_is_told_from_what_is_not_there() -> None:
    cluster = Cluster(1, topics={"orders": ORDERS})
    cluster.denied |= {"orders", "clicks"}
    said = await ask_witness(cluster.made, 1, ASKED)
    assert said.by_id == {ORDERS: DENIED, CLICKS: UNKNOWN_ID}
    assert said.by_name == {"orders": DENIED, "clicks": DENIED}


async def test_a_topic_that_an_answer_leaves_out_is_neither_known_nor_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(1)
    broker = cluster.brokers[1]
    monkeypatch.setattr(broker, "_topic", lambda *_: broker._answer(UNKNOWN_ID, "other", UUID(CLICKS)))
    said = await ask_witness(cluster.made, 1, {"orders": ORDERS})
    assert said.by_id == {ORDERS: ErrorCode.UNKNOWN_SERVER_ERROR}
    assert said.by_name == {"orders": ErrorCode.UNKNOWN_SERVER_ERROR}


async def test_an_answer_with_an_error_as_a_whole_is_none() -> None:
    cluster = Cluster(1)
    cluster.brokers[1].error = ErrorCode.REBOOTSTRAP_REQUIRED
    with pytest.raises(BrokerRefused):
        await ask_witness(cluster.made, 1, ASKED)


async def test_a_broker_that_does_not_understand_ids_is_not_asked() -> None:
    cluster = Cluster(1, version=11)
    with pytest.raises(BrokerRefused) as refused:
        await ask_witnesses(cluster.made, ASKED)
    assert refused.value.code == ErrorCode.UNSUPPORTED_VERSION
    assert cluster.asked == {}


@pytest.mark.parametrize(
    ("nodes", "away", "first", "asked"),
    [
        ((1,), set(), (), {1: 2}),
        ((1, 2, 3), set(), (), {1: 1, 2: 1}),
        ((1, 2, 3), set(), (3,), {1: 1, 3: 1}),
        ((1, 2, 3), {1}, (), {2: 1, 3: 1}),
        ((1, 2), {2}, (), {1: 1}),
    ],
)
async def test_two_brokers_are_asked_or_the_only_one_twice(
    nodes: tuple[int, ...], away: set[int], first: tuple[int, ...], asked: dict[int, int]
) -> None:
    cluster = Cluster(*nodes)
    cluster.away = away
    said = await ask_witnesses(cluster.made, ASKED, first)
    assert cluster.asked == asked
    assert sorted(each.node for each in said) == sorted(n for n, times in asked.items() for _ in range(times))


async def test_a_cluster_of_which_nobody_answers_is_away() -> None:
    cluster = Cluster(1, 2)
    cluster.away = {1, 2}
    with pytest.raises(Disconnected):
        await ask_witnesses(cluster.made, ASKED)
