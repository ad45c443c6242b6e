"""The log ends of many partitions, asked of one broker at once, again and again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kafka.protocol.consumer import ListOffsetsResponse

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.list_offsets import LATEST, OURSELVES, offsets_request
from heliograph.cluster.messages import unpacking
from heliograph.cluster.repeated_call import RepeatedCall
from heliograph.model.partition import TopicPartition

Asked = tuple[tuple[TopicPartition, int], ...]  # with the leader's epoch


class LogEnds:
    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._calls: dict[int, RepeatedCall[Mapping[TopicPartition, int]]] = {}  # by broker

    async def read(self, node: int, wheres: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Those that the broker does not lead, or refuses to tell, are left out."""
        leaders = ((where, self._client.leader(where)) for where in wheres)
        asked = tuple((where, led.epoch) for where, led in leaders if led is not None and led.node == node)
        call = self._calls.get(node)
        if call is None:
            call = self._calls[node] = RepeatedCall(ListOffsetsResponse, partial(_ends_in, node))
        timeout_ms = self._client.properties.request_timeout_ms
        return await self._client.call_again(node, call, asked, lambda: _request(asked, timeout_ms))


def _request(asked: Asked, timeout_ms: int) -> Any:
    epochs = dict(asked)
    latest = dict.fromkeys(epochs, LATEST)
    return offsets_request(latest, epochs, replica=OURSELVES, committed=False, timeout_ms=timeout_ms)


def _ends_in(node: int, response: Any) -> Mapping[TopicPartition, int]:
    with unpacking(f"ends from broker {node}"):
        return {
            TopicPartition(answered.name, partition.partition_index): int(partition.offset)
            for answered in response.topics
            for partition in answered.partitions
            if partition.error_code == 0
        }
