"""A fetch at a source broker: answered when there is something to tell, or when it has waited long enough."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from heliograph.model.errors import BrokerRefused, Disconnected
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.fetch import FetchedPartition, FetchReply, FetchWant
from heliograph.wire.fetch_request import FetchAsk
from tests.support.model_sessions import OpenFetch

from .answers import Fetched
from .sim_client import SimClient


@dataclass(slots=True, eq=False)
class WaitingFetch:
    """A long poll at a source broker."""

    client: SimClient
    node: int
    ask: FetchAsk
    max_bytes: int
    answer: asyncio.Future[FetchReply]
    committed: bool = False
    opened: OpenFetch | None = None  # since the broker has begun with it
    wheres: frozenset[tuple[str, int]] = frozenset()
    over: bool = False

    def look(self, *, at_last: bool = False) -> None:
        """Answer if there is something to tell, or at last with nothing."""
        if self.over:
            return
        client = self.client
        if self.node in client.cluster.down:
            self.end(Disconnected(f"broker {self.node} is away"))
            return
        if client.cluster.is_frozen(self.node):
            client.cluster.when_thawed(self.node, self.look_again, at_last)
            return
        if self.opened is None:
            opened = client.cluster.sessions[self.node].open(self.ask)
            if isinstance(opened, FetchReply):
                self._send(opened)
                return
            self.opened = opened
            self.wheres = frozenset((want.topic, want.partition) for want in opened.wants)
        partitions = self._read(client, self.opened.wants)
        if at_last or any(len(p.records) or p.error or p.diverging_epoch for p in partitions):
            throttle_ms = client.cluster.world.throttle_ms()
            mute = throttle_ms > 0 and client.cluster.world.chance.random() < 0.5
            self._send(self.opened.reply(partitions, throttle_ms=throttle_ms, mute=mute))

    def _send(self, reply: FetchReply) -> None:
        """The broker takes it for delivered, whatever becomes of it."""
        client, world = self.client, self.client.cluster.world
        if world.loses_message():
            self.end(Disconnected("the connection broke"))
            return
        self.over = True
        client.process.after(world.delay_s(), client.process.loop.arrive, client.settle, self.answer, reply)

    def look_again(self, at_last: bool) -> None:
        self.look(at_last=at_last)

    def end(self, problem: Exception) -> None:
        if not self.over:
            self.over = True
            client = self.client
            client.process.after(client.cluster.world.delay_s(), client.fail, self.answer, problem)

    def _read(self, client: SimClient, wants: Sequence[FetchWant]) -> list[FetchedPartition]:
        read: list[tuple[TopicPartition, Fetched, bytes]] = []
        left_bytes = self.max_bytes
        for want in wants:
            where = TopicPartition(want.topic, want.partition)
            fetched = self._fetch(client, where, want, min(want.max_bytes, left_bytes))
            records = b"".join(stored.data for stored in fetched.batches) if left_bytes > 0 else b""
            left_bytes -= len(records)
            read.append((where, fetched, records))
        buffer = _one_buffer(client, [records for _, _, records in read])
        partitions, at = [], 0
        for where, fetched, records in read:
            view = buffer[at : at + len(records)]
            at += len(records)
            told = FetchedPartition(
                *where,
                fetched.error,
                fetched.high_watermark,
                fetched.stable_end,
                fetched.start,
                -1,
                view,
                fetched.diverging,
                None,
            )
            partitions.append(told._replace(aborted=fetched.aborted))
        return partitions

    def _fetch(self, client: SimClient, where: TopicPartition, want: FetchWant, max_bytes: int) -> Fetched:
        try:
            partition = client.replica(where, self.node)
        except BrokerRefused as refused:
            return Fetched(refused.code)
        if self.ask.names is not None and UUID(bytes=want.topic_id) != UUID(partition.topic_id):
            return Fetched(ErrorCode.UNKNOWN_TOPIC_ID)
        return partition.fetch(
            self.node,
            want.next_offset,
            leader_epoch=want.leader_epoch,
            last_fetched_epoch=want.last_fetched_epoch,
            max_bytes=max_bytes,
            committed=self.committed,
        )


def _one_buffer(client: SimClient, parts: Sequence[bytes]) -> memoryview:
    """As cluster/receive_buffers.py has them: powers of two, and used again, so that a small answer may keep a large
    one alive; all of it, for as long as any part."""
    size_bytes = sum(map(len, parts))
    if not size_bytes:
        return memoryview(bytearray())
    client.buffer_bytes = max(client.buffer_bytes, 1 << (size_bytes - 1).bit_length())
    buffer = bytearray(client.buffer_bytes)
    buffer[:size_bytes] = b"".join(parts)
    return memoryview(buffer)
