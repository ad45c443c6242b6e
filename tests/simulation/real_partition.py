"""A partition of a real broker, asked with the same steps as the model and answering in the same words."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.list_offsets import CONSUMER, EARLIEST, LATEST, OURSELVES
from heliograph.cluster.metadata import Leader
from heliograph.cluster.properties import parse_properties
from heliograph.model.errors import ProtocolError, RequestFailed
from heliograph.model.partition import TopicPartition
from heliograph.wire.batch import split_batches
from heliograph.wire.fetch import FetchWant

from .answers import NO_EPOCH
from .leader_epochs import EpochEnd
from .model_script import as_seen, batch_as_seen
from .real_requests import RealRequests
from .requests import AskWithEpoch, DeleteRecords, Fetch, Look, Produce, Seen, Step, WriteMarkers

LEADER_TIMEOUT_S = 40.0


class RealPartition:
    def __init__(self, bootstrap: str, topic: str) -> None:
        self.where = TopicPartition(topic, 0)
        self._client = ClusterClient("real", parse_properties({"bootstrap.servers": bootstrap}))
        self._client.follow([topic])
        self.requests = RealRequests(self._client, self.where)

    async def __aenter__(self) -> RealPartition:
        await self._client.connect()
        return self

    async def __aexit__(self, *_problem: object) -> None:
        await self._client.aclose()

    @property
    def leader(self) -> Leader:
        leader = self._client.leader(self.where)
        assert leader is not None
        return leader

    async def wait_for_leader(self, *, above_epoch: int = NO_EPOCH) -> Leader:
        """Until a leader of a later epoch answers."""
        async with asyncio.timeout(LEADER_TIMEOUT_S):
            while True:
                try:
                    await self._client.refresh()
                    leader = self._client.leader(self.where)
                    if leader is not None and leader.epoch > above_epoch:
                        answer = await self.requests.list_offset(leader.node, LATEST, CONSUMER, leader.epoch)
                        if not answer.error:
                            return leader
                except (RequestFailed, ProtocolError):
                    pass  # not up yet
                await asyncio.sleep(0.1)

    async def refresh(self) -> None:
        await self._client.refresh()

    async def perform(self, step: Step, batch: memoryview | None = None) -> Seen:
        match step:
            case Produce(in_transaction=in_transaction):
                assert batch is not None
                return await self.produce(self.leader.node, batch, in_transaction=in_transaction)
            case WriteMarkers(markers=markers):
                return await self.requests.write_markers(self.leader.node, markers)
            case Look():
                return await self.look(self.leader.node)
            case AskWithEpoch(epochs_off=off):
                return await self.ask_with_epoch(self.leader.node, self.leader.epoch + off)
            case Fetch():
                return await self._fetch(step)
            case DeleteRecords(before_offset=offset):
                return await self.requests.delete_records(self.leader.node, offset)
        raise AssertionError(f"a broker is not asked for {step}")

    @property
    def topic_id(self) -> bytes:
        return UUID(self._client.metadata.topic_id(self.where.topic)).bytes

    async def produce(
        self, node: int, batch: memoryview, topic_id: bytes = b"", *, in_transaction: bool = False
    ) -> Seen:
        """By the topic's name, or by an id if one is given."""
        return await self.requests.produce(node, batch, topic_id, in_transaction=in_transaction)

    async def look(self, node: int) -> Seen:
        ends = [
            await self.requests.list_offset(node, when, replica, NO_EPOCH, committed=committed)
            for when, replica, committed in (
                (EARLIEST, CONSUMER, False),
                (LATEST, CONSUMER, False),
                (LATEST, CONSUMER, True),
                (LATEST, OURSELVES, False),
            )
        ]
        return as_seen(await self.requests.producers(node)), tuple(ends)

    async def ask_with_epoch(self, node: int, epoch: int) -> Seen:
        end = await self.requests.list_offset(node, LATEST, OURSELVES, epoch)
        fetched = await self.requests.fetch(node, FetchWant(*self.where, 0, 1, epoch))
        return end, fetched.error

    async def _fetch(self, step: Fetch) -> Seen:
        want = FetchWant(*self.where, step.offset, step.max_bytes, self.leader.epoch, step.last_fetched_epoch)
        answer: Any = await self.requests.fetch(self.leader.node, want, committed=step.committed)
        diverging = None if answer.diverging_epoch is None else EpochEnd(*answer.diverging_epoch)
        batches = tuple(batch_as_seen(header, bytes(view)) for header, view in split_batches(answer.records))
        ends = answer.high_watermark, answer.last_stable_offset, answer.log_start_offset
        return answer.error, ends, diverging, answer.aborted, batches
