"""Empty transactions: one control record for one offset, without the right to write markers.

A transaction that a partition was added to, and nothing was written in, is aborted: its coordinator has one marker
appended to the partition, which no consumer sees. Owns the requests to coordinators and what their answers mean. Must
not know which offsets are to be filled.

    fence   InitProducerId                     whatever was begun with this transactional id is over after it
    write   AddPartitionsToTxn ─▶ EndTxn (abort) ─▶ EndTxn again, until it is answered: the marker is in the log

Versions: the coordinator aborts with the epoch that we have (AddPartitionsToTxn 3, EndTxn 4 at most; cluster/
messages.py). From EndTxn 5 on every transaction has an epoch of its own, and every 32,767th another producer id.
EndTxn may be repeated: of a transaction that is being aborted it is answered with CONCURRENT_TRANSACTIONS, of one that
was aborted with success. So the second answer says that the leader has acknowledged the marker, and that the
coordinator will send it no more. A coordinator that had no answer of the leader sends a marker again, and then there
are two: the log's end must be read after it.

Fencing. A coordinator refuses AddPartitionsToTxn and EndTxn of an epoch that is not the last it gave out
(INVALID_PRODUCER_EPOCH, PRODUCER_FENCED). So of a holder that was frozen, or whose bytes come late, nothing is executed
once its successor is fenced off from it; and what it had begun before, InitProducerId ends first: it is answered with
CONCURRENT_TRANSACTIONS until the marker of that is in the log. A holder that thaws sends nothing by itself: both
requests that lead to a marker pass the gate with a permit, as appends do (cluster/gate.py). InitProducerId has none: it
appends nothing but the end of what was begun, at the offset that it was begun for; its worst is that the rival that it
fences asks the target again.

What this cannot do: a request of the coordinator's to a leader, on a connection that broke, may be executed after the
same was done on another one. Then a marker is appended later, and the partition stops (`wrong_place` or `anchor`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.flight import CAREFUL_UNACKNOWLEDGED_MS
from heliograph.cluster.gate import Permit
from heliograph.cluster.grants import Resource, Right, grant_line, transactional_grant_line
from heliograph.cluster.messages import call, unpacking
from heliograph.model.errors import BrokerRefused, Disconnected, ProtocolError, RequestFailed
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

TRANSACTION_KEY_TYPE = 1
# What a holder that died has begun is aborted after it, at the next look of the coordinator, 10 s apart by default: its
# successor does not wait for that, but a partition that nobody takes over has its marker then.
TRANSACTION_TIMEOUT_MS = 10_000
FIND_ANSWER_MS = 3_000  # any broker can answer: one that hangs must not be waited for
# A broker takes a connection's next request when it has answered the last: partitions of one coordinator share these.
LINES = 4
FENCES_AT_ONCE = 32  # at one coordinator: each is a write to its log
FINDS_AT_ONCE = 32
PAUSE_FIRST_S, PAUSE_MOST_S = 0.001, 0.1  # a marker is in the log after one or two milliseconds, as a rule

ELSEWHERE = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
PASSING = ELSEWHERE | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS}


@dataclass(frozen=True, slots=True)
class FillProducer:
    """What a coordinator gave to a transactional id; with it, and until the next one, transactions can be begun."""

    producer_id: int
    epoch: int


class EmptyTransactions:
    """On one cluster; `link` names the connections."""

    def __init__(self, client: ClusterClient, link: str) -> None:
        self._client = client
        self._purpose = f"empty transactions for {link}"
        self._coordinators: dict[str, int] = {}
        self._finding = asyncio.Semaphore(FINDS_AT_ONCE)
        self._answered: int | None = None  # who told the last coordinator: asked first, while others may hang
        self._fencing: dict[
            int, asyncio.Semaphore
        ] = {}  # by coordinator: one that hangs holds up its own only

    async def fence(self, transactional_id: str) -> FillProducer:
        """All others with this transactional id can begin and end nothing from now on, and all that they have begun is
        over: the log's end is read after this."""
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        node = await self._coordinator(transactional_id)
        async with self._fencing.setdefault(node, asyncio.Semaphore(FENCES_AT_ONCE)):
            return await self._ask(transactional_id, request, InitProducerIdResponse, _initialised)

    async def write(
        self, transactional_id: str, producer: FillProducer, where: TopicPartition, permit: Permit
    ) -> None:
        """One marker is appended to the partition. After any other end than a return it may be, or may be later,
        until the next `fence`."""
        await self.begin(transactional_id, producer, where, permit)
        await self.end(transactional_id, producer, permit)
        await self.end(transactional_id, producer, permit)  # answered when it is over

    async def begin(
        self, transactional_id: str, producer: FillProducer, where: TopicPartition, permit: Permit
    ) -> None:
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=[topic(name=where.topic, partitions=[where.partition])],
        )
        await self._ask(transactional_id, request, AddPartitionsToTxnResponse, _added, permit, where.topic)

    async def end(self, transactional_id: str, producer: FillProducer, permit: Permit) -> None:
        """Abort it. Success: it is being aborted; or, if that was asked for before, it was."""
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=False,
        )
        await self._ask(transactional_id, request, EndTxnResponse, _ended, permit)

    async def _ask(
        self,
        transactional_id: str,
        request: Any,
        response_class: type[Any],
        read: Callable[[Any], tuple[int, FillProducer]],
        permit: Permit | None = None,
        topic: str = "",
    ) -> FillProducer:
        """Until the coordinator, wherever it is, says something that waiting does not change; for as long as a request
        may take. What is refused with a passing code was not executed, or says that it was."""
        timeout_ms = self._client.properties.request_timeout_ms
        patience = _Patience(timeout_ms)
        line = f"{self._purpose}, line {crc32(transactional_id.encode()) % LINES}"
        while True:
            try:
                node = await self._coordinator(transactional_id)
                connection = await self._client.connection(
                    node, line, unacknowledged_ms=CAREFUL_UNACKNOWLEDGED_MS
                )
                response = await call(
                    connection, request, response_class, timeout_ms=timeout_ms, permit=permit
                )
            except RequestFailed:
                self._coordinators.pop(transactional_id, None)  # perhaps it is another one by now
                raise
            with unpacking(f"{request.name} of {transactional_id} from {connection.address}"):
                code, producer = read(response)
            if not code:
                return producer
            if code in ELSEWHERE:
                self._coordinators.pop(transactional_id, None)
            if not await patience.bears(code):
                raise self._refused(code, transactional_id, request.name, topic)

    async def _coordinator(self, transactional_id: str) -> int:
        known = self._coordinators.get(transactional_id)
        if known is not None:
            return known
        patience = _Patience(self._client.properties.request_timeout_ms)
        while True:
            async with self._finding:
                code, node = await self._find(transactional_id)
            if not code:
                self._coordinators[transactional_id] = node
                return node
            # The first transaction of a cluster has the topic made that coordinators write to.
            if not await patience.bears(code):
                raise self._refused(code, transactional_id, "FindCoordinatorRequest")

    async def _find(self, transactional_id: str) -> tuple[int, int]:
        """The code and the node, from one broker after the other: one that hangs is met once."""
        nodes = random.sample(sorted(self._client.metadata.brokers), len(self._client.metadata.brokers))
        nodes.sort(key=lambda node: node != self._answered)
        problem: RequestFailed | ProtocolError = Disconnected(
            f"no broker of cluster {self._client.name!r} is known"
        )
        timeout_ms = min(FIND_ANSWER_MS, self._client.properties.request_timeout_ms)
        request = FindCoordinatorRequest(
            key=transactional_id, key_type=TRANSACTION_KEY_TYPE, coordinator_keys=[transactional_id]
        )
        for node in nodes:
            try:
                connection = await self._client.connection(
                    node, f"finding {self._purpose}", unacknowledged_ms=CAREFUL_UNACKNOWLEDGED_MS
                )
                response = await call(connection, request, FindCoordinatorResponse, timeout_ms=timeout_ms)
                with unpacking(f"the coordinator of {transactional_id} from {connection.address}"):
                    # A list from version 4 on.
                    found = response.coordinators[0] if response.coordinators else response
                    code, coordinator = int(found.error_code), int(found.node_id)
                self._answered = node
                return code, coordinator
            except (RequestFailed, ProtocolError) as failed:
                problem = failed
        raise problem

    def _refused(self, code: int, transactional_id: str, request: str, topic: str = "") -> BrokerRefused:
        properties, hint = self._client.properties, ""
        if code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            prefix = transactional_id.rpartition(".")[0] + "."  # of all partitions of its topic
            hint = f"grant WRITE on its transactional ids: {transactional_grant_line(properties, prefix)}"
        elif code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            line = grant_line(properties, Right.WRITE, Resource.TOPIC, [topic])
            hint = f"grant WRITE on the topic: {line}"
        what = f"cluster {self._client.name!r}, transactional id {transactional_id}"
        return BrokerRefused(
            f"{what}: {request.removesuffix('Request')}: {ErrorCode.name_of(code)}", code=code, hint=hint
        )


class _Patience:
    """With codes that pass by themselves, for so long."""

    def __init__(self, limit_ms: int) -> None:
        self._give_up_at = asyncio.get_running_loop().time() + limit_ms / 1000
        self._pause_s = PAUSE_FIRST_S

    async def bears(self, code: int) -> bool:
        """Whether to ask again; a pause has been made then."""
        now = asyncio.get_running_loop().time()
        if code not in PASSING or now + self._pause_s >= self._give_up_at:
            return False
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, PAUSE_MOST_S)
        return True


NO_PRODUCER = FillProducer(-1, -1)


def _initialised(response: Any) -> tuple[int, FillProducer]:
    return int(response.error_code), FillProducer(int(response.producer_id), int(response.producer_epoch))


def _added(response: Any) -> tuple[int, FillProducer]:
    (topic,) = response.results_by_topic_v3_and_below
    (partition,) = topic.results_by_partition
    return int(partition.partition_error_code), NO_PRODUCER


def _ended(response: Any) -> tuple[int, FillProducer]:
    return int(response.error_code), NO_PRODUCER
