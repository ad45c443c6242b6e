"""The coordinator of one group, real and modelled, asked with the same messages by members of the same names.

Each side gives its own member ids; an answer is told by the members' names. A join waits for others: whoever joins goes
on in the background until somebody asks for the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from kafka.protocol.consumer import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from heliograph.cluster import group_requests
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.group_requests import Ask
from heliograph.cluster.messages import call
from heliograph.cluster.properties import parse_properties
from heliograph.model.errors import ProtocolError, RequestFailed
from heliograph.wire.error_codes import ErrorCode
from tests.cluster.group_model import Coordinator

SESSION_S = 10
ANSWER_S = 20.0
VERSIONS = {"OffsetCommitRequest": 8, "OffsetFetchRequest": 7}
TRIED_AGAIN = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
Where = tuple[str, int]
Told = tuple[int, str]  # an offset and its metadata


class Side:
    """`ids`: of the members, by their names. `generation`: the last that a member has heard of."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.ids: dict[str, str] = {}
        self.generation = 0
        self._joining: dict[str, asyncio.Task[Any]] = {}

    async def ask(self, name: str, ask: Ask) -> Any:
        raise NotImplementedError

    async def join(self, name: str) -> None:
        """Until it is given an id, and its join is on its way."""
        if name not in self.ids:
            given = await self.ask(name, self._join(""))
            assert given.error_code == ErrorCode.MEMBER_ID_REQUIRED, given
            self.ids[name] = given.member_id
        self._joining[name] = asyncio.create_task(self.ask(name, self._join(self.ids[name])))
        await asyncio.sleep(0.3)

    def _join(self, member_id: str) -> Ask:
        return group_requests.join(self.group, member_id, "p", b"m", session_s=SESSION_S, timeout_s=ANSWER_S)

    async def joined(self, name: str) -> tuple[int, int]:
        answer = await self._joining.pop(name)
        self.generation = answer.generation_id
        return answer.error_code, answer.generation_id

    async def sync(self, name: str) -> int:
        assignments = [(member_id, b"a") for member_id in self.ids.values()]
        asked = group_requests.sync(
            self.group, self.ids[name], self.generation, "p", assignments, timeout_s=ANSWER_S
        )
        return int((await self.ask(name, asked)).error_code)

    async def leave(self, name: str) -> int:
        asked = group_requests.leave(self.group, self.ids.pop(name), timeout_s=ANSWER_S)
        return int((await self.ask(name, asked)).error_code)

    async def commit(self, name: str, generation: int, cells: Mapping[Where, Told]) -> dict[Where, int]:
        """By a member, or by somebody whom nobody knows; an empty name: by somebody who says no name."""
        topic = OffsetCommitRequest.OffsetCommitRequestTopic
        topics = [
            topic(
                name=where[0],
                partitions=[
                    topic.OffsetCommitRequestPartition(
                        partition_index=where[1], committed_offset=offset, committed_metadata=text
                    )
                ],
            )
            for where, (offset, text) in cells.items()
        ]
        message = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=generation,
            member_id=self.ids.get(name, name),
            group_instance_id=None,
            retention_time_ms=-1,
            topics=topics,
        )
        ask = Ask(message=message, response_class=OffsetCommitResponse, timeout_s=ANSWER_S)
        answer = await self.ask("commits", ask)
        return {(t.name, p.partition_index): p.error_code for t in answer.topics for p in t.partitions}

    async def fetch(self, *wheres: Where) -> dict[Where, Told]:
        """All, if none is named."""
        topic = OffsetFetchRequest.OffsetFetchRequestTopic
        topics = [topic(name=name, partition_indexes=[number]) for name, number in wheres] or None
        message = OffsetFetchRequest(group_id=self.group, topics=topics, require_stable=False)
        ask = Ask(message=message, response_class=OffsetFetchResponse, timeout_s=ANSWER_S)
        answer = await self.ask("commits", ask)
        assert not answer.error_code
        return {
            (t.name, p.partition_index): (p.committed_offset, p.metadata)
            for t in answer.topics
            for p in t.partitions
            if not p.error_code
        }


class ModelSide(Side):
    def __init__(self, group: str, coordinator: Coordinator) -> None:
        super().__init__(group)
        self.coordinator = coordinator

    async def ask(self, name: str, ask: Ask) -> Any:  # noqa: ARG002 - all are heard alike
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.coordinator.handle(ask.message, 0.0, answer.set_result)
        return await answer


class RealSide(Side):
    """Each member has a connection of its own: a join that waits holds up nobody else."""

    def __init__(self, group: str, bootstrap: str) -> None:
        super().__init__(group)
        self._client = ClusterClient("real", parse_properties({"bootstrap.servers": bootstrap}))

    async def __aenter__(self) -> RealSide:
        await self._client.connect()
        return self

    async def __aexit__(self, *_problem: object) -> None:
        await self._client.aclose()

    async def wait(self) -> None:
        """Until there is a coordinator that answers."""
        async with asyncio.timeout(60):
            while True:
                try:
                    await self._client.refresh()
                    await self.fetch()
                    return
                except (RequestFailed, ProtocolError, AssertionError):
                    await asyncio.sleep(0.2)

    async def ask(self, name: str, ask: Ask) -> Any:
        node = await self._find()
        connection = await self._client.connection(node, f"member {name}")
        version = VERSIONS.get(ask.message.name)
        timeout_ms = int(ask.timeout_s * 1000)
        if version is None:
            return await call(connection, ask.message, ask.response_class, timeout_ms=timeout_ms)
        body = await connection.request(
            ask.message.API_KEY,
            version,
            [ask.message.encode(version=version)],
            flexible=ask.message.flexible_version_q(version),
            timeout_ms=timeout_ms,
        )
        return ask.response_class.decode(body, version=version)

    async def _find(self) -> int:
        request = FindCoordinatorRequest(key=self.group, key_type=0, coordinator_keys=[self.group])
        async with asyncio.timeout(60):
            while True:
                (node, *_) = self._client.metadata.brokers
                connection = await self._client.connection(node, "find")
                found = await call(connection, request, FindCoordinatorResponse, timeout_ms=5_000)
                found = found.coordinators[0] if found.coordinators else found
                if not found.error_code:
                    return int(found.node_id)
                assert found.error_code in TRIED_AGAIN, found
                await asyncio.sleep(0.2)
