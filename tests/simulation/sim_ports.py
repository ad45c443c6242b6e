"""The copier's ports to the clusters of a world: the questions of cluster.BatchSource and BatchTarget, to the model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from heliograph.cluster.admin import TopicConfig
from heliograph.cluster.line_name import LineName
from heliograph.cluster.log_reads import Batches, LogSpan, ProducerState
from heliograph.cluster.metadata import Leader
from heliograph.copier.ports import Batch
from heliograph.model.errors import BrokerRefused, Disconnected, ProtocolError
from heliograph.model.partition import TopicPartition
from heliograph.model.policy import Isolation
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.fetch import FetchReply
from heliograph.wire.fetch_request import FetchAsk

from .answers import Answer
from .long_poll import WaitingFetch
from .model_broker import ModelPartition
from .sim_client import NOWHERE, SimClient
from .sim_line import SimLine


class _Questions:
    """What both ports ask."""

    def __init__(self, client: SimClient, link: str) -> None:
        self.client = client
        self.link = link

    def leader(self, where: TopicPartition) -> Leader | None:
        return self.client.leader(where)

    def topic_id(self, topic: str) -> str:
        return self.client.metadata.identity(topic)

    async def refresh(self) -> None:
        await self.client.refresh()

    async def span(self, where: TopicPartition) -> LogSpan:
        node, epoch = self.client.reach(where)
        found: LogSpan = await self.client.ask(
            node, lambda: _span(self.client.replica(where, node), node, epoch)
        )
        return found

    async def batch_at(self, where: TopicPartition, offset: int) -> Batch | None:
        node, epoch = self.client.reach(where)
        found: Batch | None = await self.client.ask(
            node, lambda: _batch(self.client.replica(where, node), node, epoch, offset)
        )
        return found

    async def batches_in(self, where: TopicPartition, first_offset: int, next_offset: int) -> Batches:
        found: list[Batch] = []
        while first_offset < next_offset:
            batch = await self.batch_at(where, first_offset)
            if batch is None or batch[0].base_offset >= next_offset:
                break
            found.append(batch)
            first_offset = batch[0].next_offset
        return Batches(headers=tuple(each[0] for each in found), views=tuple(each[1] for each in found))


class SimTarget(_Questions):
    def __init__(self, client: SimClient, link: str) -> None:
        super().__init__(client, link)
        self.lines: dict[tuple[int, LineName], SimLine] = {}

    def has_followers(self, topic: str) -> bool:
        found = self.client.metadata.topics.get(topic)
        return found is None or found.replication_factor > 1

    async def line_to(self, node: int, name: LineName) -> SimLine:
        line = self.lines.get((node, name))
        if line is not None and not line.closed:
            return line
        if node not in self.client.metadata.brokers:
            raise Disconnected(f"there is no broker {node} now")
        setup_s = self.client.properties.socket_connection_setup_timeout_ms / 1000
        await self.client.ask(node, lambda: None, setup_s)
        line = self.lines[node, name] = SimLine(self, node, name)
        return line

    async def log_ends(self, node: int, wheres: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        epochs = {where: leader.epoch for where in wheres if (leader := self.leader(where)) is not None}

        def read() -> dict[TopicPartition, int]:
            found = {}
            for where, epoch in epochs.items():
                partition = self.client.cluster.partition(where)
                permitted = self.client.cluster.topics[where.topic].permitted
                if partition is not None and permitted and node in partition.replicas:
                    error, end = partition.log_end(node, epoch)
                    if not error:
                        found[where] = end
            return found

        found: dict[TopicPartition, int] = await self.client.ask(node, read)
        return found

    async def topic_configs(self, topics: Sequence[str], keys: Sequence[str]) -> Mapping[str, TopicConfig]:
        del keys
        nodes = self.client.cluster.answering
        cluster, node = self.client.cluster, nodes[0] if nodes else NOWHERE
        found: Mapping[str, Mapping[str, str]] = await self.client.ask(
            node, lambda: {topic: cluster.topics[topic].configs for topic in topics}
        )
        return {topic: TopicConfig(own={}, effective=configs) for topic, configs in found.items()}

    async def producer(self, where: TopicPartition, producer_id: int) -> ProducerState | None:
        node, _ = self.client.reach(where)

        def read() -> ProducerState | None:
            view = self.client.replica(where, node).producers(node).get(producer_id)
            if view is None:
                return None
            epoch, last_sequence, last_timestamp, *_ = view
            return ProducerState(epoch=epoch, last_sequence=last_sequence, last_timestamp=last_timestamp)

        found: ProducerState | None = await self.client.ask(node, read)
        return found


class SimSource(_Questions):
    async def fetch(
        self,
        node: int,
        line: str,  # noqa: ARG002 - here nobody waits for anybody
        ask: FetchAsk,
        *,
        max_bytes: int,
        max_wait_ms: int,
        isolation: Isolation,  # noqa: ARG002 - a world has no transactions
    ) -> FetchReply:
        client = self.client
        world = client.cluster.world
        answer: asyncio.Future[FetchReply] = asyncio.get_running_loop().create_future()
        if not world.plan.produces_by_id:  # a broker that knows no ids is asked by names
            ask = ask._replace(names=None)
        fetch = WaitingFetch(client, node, ask, max_bytes, answer)
        limit_s = (client.properties.request_timeout_ms + max_wait_ms) / 1000
        world.after(world.delay_s(), self._arrive, fetch, max_wait_ms / 1000, limit_s)
        try:
            return await answer
        finally:
            fetch.over = True
            world.fetches.pop(fetch, None)

    def _arrive(self, fetch: WaitingFetch, wait_s: float, limit_s: float) -> None:
        client, world = self.client, self.client.cluster.world
        if world.loses_message():
            if world.chance.random() < 0.5:
                fetch.end(Disconnected("the connection broke"))
            else:
                fetch.over = True
                client.time_out(fetch.answer, limit_s)
            return
        world.fetches[fetch] = None
        fetch.look()
        if not fetch.over:
            world.after(wait_s, fetch.look_again, True)
            if client.cluster.is_frozen(fetch.node):
                client.time_out(fetch.answer, limit_s)

    async def open_transaction(self, _where: TopicPartition) -> None:
        return None


def _span(partition: ModelPartition, node: int, epoch: int) -> LogSpan:
    start, watermark, end = (
        _offset(ask(node, epoch))
        for ask in (partition.log_start, partition.high_watermark, partition.log_end)
    )
    if not 0 <= start <= end or watermark > end:
        raise ProtocolError("an impossible log")
    return LogSpan(start=start, high_watermark=watermark, end=end)


def _offset(answer: Answer) -> int:
    if answer.error:
        raise BrokerRefused(ErrorCode.name_of(answer.error), code=answer.error)
    return answer.offset


def _batch(partition: ModelPartition, node: int, epoch: int, offset: int) -> Batch | None:
    fetched = partition.fetch(node, offset, leader_epoch=epoch)
    if fetched.error:
        raise BrokerRefused(f"fetch: {ErrorCode.name_of(fetched.error)}", code=fetched.error)
    for stored in fetched.batches:
        if stored.header.next_offset > offset:
            return stored.header, memoryview(bytearray(stored.data))
    return None
