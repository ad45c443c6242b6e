"""Whose transaction is open on a partition, and since when: leaders and transaction coordinators are asked.

A leader knows the producer id (DescribeProducers). The transactional id, and when the transaction began, only its
coordinator knows, which may be any broker (ListTransactions and DescribeTransactions, Kafka 3.0 and later). Brokers
leave out transactional ids on which this client has no DESCRIBE: then they are not known here, which is no error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from shlex import quote
from typing import Any

from kafka.protocol.admin import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

from heliograph.cluster.at_most import at_most
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.log_reads import read_producers
from heliograph.cluster.messages import raise_for, unpacking
from heliograph.cluster.tool_servers import tool_servers
from heliograph.model.errors import ProtocolError, RequestFailed
from heliograph.model.partition import TopicPartition

BROKERS_AT_ONCE = 16
BROKER_LIMIT_S = 0.7  # a broker that hangs must not hide what the others know
OWNER_LIMIT_S = 1.5  # for both questions; whoever waits for the answer waits for 3 s (copier/vigil.py)
OWNER_LASTS_S = 10.0  # a producer that hangs does so on all its partitions at about the same time


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """What a coordinator knows of a producer id. `state`: Ongoing, as a rule; with any other one the coordinator has
    forgotten the transaction, and only an operator can end it. `since_ms`: when it began."""

    transactional_id: str
    state: str
    since_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """`last_record_ms`: the timestamp of the producer's last record, -1 where it has none. `owner` None: not known."""

    where: TopicPartition
    producer_id: int
    start_offset: int
    last_record_ms: int
    owner: Owner | None
    servers: str

    @property
    def abort_command(self) -> str:
        """The line for a shell that ends it. What it wrote is then aborted for good."""
        line = ["kafka-transactions.sh", "--bootstrap-server", self.servers, "abort"]
        line += ["--topic", quote(self.where.topic), "--partition", str(self.where.partition)]
        return " ".join([*line, "--start-offset", str(self.start_offset)])


class OpenTransactions:
    """Of one cluster."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._owners: dict[int, tuple[float, Owner | None]] = {}  # by producer id, and until when
        self._looking = asyncio.Lock()  # one question at a time: the next may be about the same producer

    async def oldest(self, where: TopicPartition) -> OpenTransaction | None:
        """The one that holds the last stable offset back; None: there is none."""
        states = await read_producers(self._client, where)
        open_at = {s.transaction_start: number for number, s in states.items() if s.transaction_start >= 0}
        if not open_at:
            return None
        start_offset = min(open_at)
        producer_id = open_at[start_offset]
        return OpenTransaction(
            where=where,
            producer_id=producer_id,
            start_offset=start_offset,
            last_record_ms=states[producer_id].last_timestamp,
            owner=await self._owner(producer_id),
            servers=tool_servers(self._client.properties),
        )

    async def _owner(self, producer_id: int) -> Owner | None:
        try:
            async with asyncio.timeout(OWNER_LIMIT_S), self._looking:
                now = asyncio.get_running_loop().time()
                self._owners = {key: kept for key, kept in self._owners.items() if kept[0] > now}
                if producer_id not in self._owners:
                    self._owners[producer_id] = now + OWNER_LASTS_S, await self._find_owner(producer_id)
                return self._owners[producer_id][1]
        except TimeoutError:
            return None

    async def _find_owner(self, producer_id: int) -> Owner | None:
        nodes = self._client.metadata.brokers
        answers = await at_most(BROKERS_AT_ONCE, (partial(self._listed, node, producer_id) for node in nodes))
        return next((owner for owner in answers if owner is not None), None)

    async def _listed(self, node: int, producer_id: int) -> Owner | None:
        """What this broker knows as the coordinator of the producer's transactional id."""
        request = ListTransactionsRequest(state_filters=[], producer_id_filters=[producer_id])
        try:
            async with asyncio.timeout(BROKER_LIMIT_S):
                response = await self._client.call(node, request, ListTransactionsResponse)
            what = f"transactions of broker {node}"
            with unpacking(what):
                raise_for(int(response.error_code), what)
                found = [
                    (str(s.transactional_id), str(s.transaction_state)) for s in response.transaction_states
                ]
        except (RequestFailed, ProtocolError, TimeoutError):
            return None
        if not found:
            return None
        transactional_id, state = found[0]
        since_ms = await self._began_at(node, transactional_id)
        return Owner(transactional_id=transactional_id, state=state, since_ms=since_ms)

    async def _began_at(self, node: int, transactional_id: str) -> int | None:
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        try:
            async with asyncio.timeout(BROKER_LIMIT_S):
                response = await self._client.call(node, request, DescribeTransactionsResponse)
            with unpacking(f"transaction of {transactional_id} from broker {node}"):
                return _began(response.transaction_states)
        except (RequestFailed, ProtocolError, TimeoutError):
            return None


def _began(states: Iterable[Any]) -> int | None:
    """Of a transaction that the coordinator does not know there is no beginning."""
    times = [int(state.transaction_start_time_ms) for state in states if not state.error_code]
    return next((begun_ms for begun_ms in times if begun_ms >= 0), None)
