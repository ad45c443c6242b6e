"""What both of the copier's ports ask the clusters of a world: the questions of cluster/log_reads.py, to the model."""

from __future__ import annotations

from heliograph.cluster.log_reads import Batches, LogSpan
from heliograph.cluster.metadata import Leader
from heliograph.cluster.producer_states import ProducerState
from heliograph.copier.ports import Batch
from heliograph.model.errors import BrokerRefused, ProtocolError
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

from .answers import Answer, Fetched, ProducerView
from .model_broker import ModelPartition
from .sim_client import SimClient

Aborted = tuple[tuple[int, int], ...]  # producer id and first offset of each


class Questions:
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
            node, lambda: span_of(self.client.replica(where, node), node, epoch)
        )
        return found

    async def batch_at(self, where: TopicPartition, offset: int) -> Batch | None:
        found, _ = await self._read(where, offset, committed=False)
        return found

    async def batches_in(
        self, where: TopicPartition, first_offset: int, next_offset: int, *, committed: bool = False
    ) -> Batches:
        found: list[Batch] = []
        read_to = -1
        aborted: dict[tuple[int, int], None] = {}  # answers that meet one transaction all list it
        while first_offset < next_offset:
            batch, told = await self._read(where, first_offset, committed=committed)
            if batch is None:
                break
            read_to = batch[0].next_offset
            if batch[0].base_offset >= next_offset:
                break
            found.append(batch)
            aborted |= dict.fromkeys(told)
            first_offset = batch[0].next_offset
        return Batches(
            headers=tuple(each[0] for each in found),
            views=tuple(each[1] for each in found),
            aborted=tuple(aborted),
            read_to=read_to,
        )

    async def _read(
        self, where: TopicPartition, offset: int, *, committed: bool
    ) -> tuple[Batch | None, Aborted]:
        node, epoch = self.client.reach(where)

        def read() -> tuple[Batch | None, Aborted]:
            fetched = self.client.replica(where, node).fetch(
                node, offset, leader_epoch=epoch, committed=committed
            )
            return _first(fetched, offset), fetched.aborted

        found: tuple[Batch | None, Aborted] = await self.client.ask(node, read)
        return found


def span_of(partition: ModelPartition, node: int, epoch: int) -> LogSpan:
    start, watermark, end = (
        offset_of(ask(node, epoch))
        for ask in (partition.log_start, partition.high_watermark, partition.log_end)
    )
    if not 0 <= start <= end or watermark > end:
        raise ProtocolError("an impossible log")
    return LogSpan(start=start, high_watermark=watermark, end=end)


def offset_of(answer: Answer) -> int:
    if answer.error:
        raise BrokerRefused(ErrorCode.name_of(answer.error), code=answer.error)
    return answer.offset


def _first(fetched: Fetched, offset: int) -> Batch | None:
    if fetched.error:
        raise BrokerRefused(f"fetch: {ErrorCode.name_of(fetched.error)}", code=fetched.error)
    for stored in fetched.batches:
        if stored.header.next_offset > offset:
            return stored.header, memoryview(bytearray(stored.data))
    return None


def state_of(view: ProducerView) -> ProducerState:
    return ProducerState(
        epoch=view.epoch,
        last_sequence=view.last_sequence,
        last_timestamp=view.last_timestamp,
        transaction_start=view.transaction_start,
        coordinator_epoch=view.coordinator_epoch,
    )
