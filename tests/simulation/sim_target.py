"""The copier's port to a target cluster of a world: cluster.BatchTarget's questions, appends, markers, to the model."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence

from heliograph.cluster.admin import TopicConfig
from heliograph.cluster.empty_transactions import FillProducer
from heliograph.cluster.line_name import LineName
from heliograph.cluster.list_offsets import DatedRecord
from heliograph.cluster.markers import Marker
from heliograph.cluster.producer_states import ProducerState
from heliograph.model.errors import BrokerRefused, Disconnected, LineLeft
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

from .answers import Deleting
from .control_batch import EndMarker
from .driver_reads import first_dated
from .marker_channel import Wanted
from .marker_line import MarkerLine
from .sim_client import NOWHERE, SimClient
from .sim_line import SimLine
from .sim_questions import Questions, offset_of, state_of
from .target_log import TargetLog

LOOKED_AT_EVERY_S = 0.05  # whether the followers have moved their start


class SimTarget(Questions):
    def __init__(self, client: SimClient, link: str) -> None:
        super().__init__(client, link)
        self.lines: dict[tuple[int, LineName], SimLine] = {}
        self.marker_lines: dict[tuple[int, int], MarkerLine] = {}  # by broker and number

    def has_followers(self, topic: str) -> bool:
        found = self.client.metadata.topics.get(topic)
        return found is None or found.replication_factor > 1

    async def line_to(self, node: int, name: LineName) -> SimLine:
        line = self.lines.get((node, name))
        if line is None or line.closed:
            await self._connect(node)
            line = self.lines[node, name] = SimLine(self, node, name)
        return line

    async def _connect(self, node: int) -> None:
        if node not in self.client.metadata.brokers:
            raise Disconnected(f"there is no broker {node} now")
        setup_s = self.client.properties.socket_connection_setup_timeout_ms / 1000
        await self.client.ask(node, lambda: None, setup_s)

    # -- questions

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

    async def first_since(self, where: TopicPartition, time_ms: int) -> DatedRecord | None:
        node, epoch = self.client.reach(where)

        def look() -> DatedRecord | None:
            partition = self.client.replica(where, node)
            return first_dated(partition, node, time_ms, offset_of(partition.high_watermark(node, epoch)))

        found: DatedRecord | None = await self.client.ask(node, look)
        return found

    async def segment_end(self, where: TopicPartition, offset: int) -> int:
        node, _ = self.client.reach(where)
        end: int = await self.client.ask(
            node, lambda: self.client.replica(where, node).replicas[node].segment_end(offset)
        )
        return end

    async def producer(self, where: TopicPartition, producer_id: int) -> ProducerState | None:
        return (await self.producers(where)).get(producer_id)

    async def producers(self, where: TopicPartition) -> Mapping[int, ProducerState]:
        node, _ = self.client.reach(where)

        def read() -> dict[int, ProducerState]:
            known = self.client.replica(where, node).producers(node)
            return {number: state_of(view) for number, view in known.items()}

        found: dict[int, ProducerState] = await self.client.ask(node, read)
        return found

    # -- what is changed

    async def write_markers(
        self, node: int, markers: Sequence[Marker], permit: Callable[[], bool]
    ) -> Mapping[tuple[TopicPartition, int], int]:
        line = await self._idle_line(node)
        try:
            errors = await line.send([self._wanted(each) for each in markers], permit)
        except asyncio.CancelledError:
            line.close(LineLeft("its answer is not awaited any more"))
            raise
        if ErrorCode.CLUSTER_AUTHORIZATION_FAILED in errors.values():
            raise BrokerRefused("no right to write markers", code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return errors

    async def _idle_line(self, node: int) -> MarkerLine:
        lines = self.marker_lines
        number = next(n for n in itertools.count() if (node, n) not in lines or not lines[node, n].busy)
        line = lines.get((node, number))
        if line is None or line.closed:
            await self._connect(node)
            line = lines[node, number] = MarkerLine(self, node)
        return line

    async def fence_fills(self, transactional_id: str) -> FillProducer:
        """Mirrors of a world write markers, and may not use transactions."""
        await asyncio.sleep(0)
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        raise BrokerRefused(f"no right to use {transactional_id}", code=code)

    async def write_empty_transaction(
        self,
        transactional_id: str,
        _producer: FillProducer,
        where: TopicPartition,
        _permit: Callable[[], bool],
    ) -> None:
        raise AssertionError(f"{transactional_id}: {where} is not filled by transactions")

    def gap_grants(self, prefix: str) -> str:
        return f"grant a right on {prefix}"

    def _wanted(self, marker: Marker) -> Wanted:
        leader, label = self.leader(marker.where), marker.label
        asked = EndMarker(label.producer_id, label.producer_epoch, label.coordinator_epoch)
        return Wanted(marker.where, asked, leader.epoch if leader is not None else -1)

    async def delete_records(self, where: TopicPartition, before_offset: int) -> None:
        """Answered when all followers that are up have done it, too, or after the request timeout."""
        node, _ = self.client.reach(where)

        def delete() -> Deleting:
            log, partition = self.client.cluster.log(where), self.client.replica(where, node)
            assert isinstance(log, TargetLog)
            answer = partition.delete_records(node, before_offset)
            if not isinstance(answer, Deleting):
                raise BrokerRefused(ErrorCode.name_of(answer.error), code=answer.error)
            log.deleted(answer)
            return answer

        deleting: Deleting = await self.client.ask(node, delete)
        for _ in range(int(self.client.properties.request_timeout_ms / 1000 / LOOKED_AT_EVERY_S)):
            if node in self.client.cluster.down:
                raise Disconnected(f"broker {node} is away")
            answer = self.client.replica(where, node).deleted(deleting)
            if answer is not None:
                offset_of(answer)
                return
            await asyncio.sleep(LOOKED_AT_EVERY_S)
        code = ErrorCode.REQUEST_TIMED_OUT
        raise BrokerRefused(ErrorCode.name_of(code), code=code)
