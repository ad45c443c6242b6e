"""DescribeProducers: whom the leaders of many partitions remember, in one request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeProducersRequest, DescribeProducersResponse

from heliograph.cluster.by_leader import Epochs, Problem, ask_leaders
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.messages import left_out, refused, unpacking
from heliograph.model.partition import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    """What the leader remembers of one producer id on one partition."""

    epoch: int
    last_sequence: int
    last_timestamp: int
    transaction_start: int = -1  # the first offset of the transaction that is open, or -1
    coordinator_epoch: int = -1  # of the id's last marker, or -1


Producers = Mapping[int, ProducerState]  # everybody whom a leader remembers, by producer id


async def describe_producers(
    client: ClusterClient, wheres: Iterable[TopicPartition]
) -> dict[TopicPartition, Producers | Problem]:
    """The request has no leader epoch, and a follower answers it, too: it goes to the leader that metadata names."""

    async def ask(node: int, epochs: Epochs) -> dict[TopicPartition, Producers | Problem]:
        response = await client.call(node, _request(epochs), DescribeProducersResponse)
        return _found(response, epochs, node)

    return await ask_leaders(client, wheres, ask)


def _request(wheres: Iterable[TopicPartition]) -> Any:
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for where in wheres:
        by_topic[where.topic].append(where.partition)
    topic = DescribeProducersRequest.TopicRequest
    return DescribeProducersRequest(
        topics=[topic(name=name, partition_indexes=numbers) for name, numbers in by_topic.items()]
    )


def _found(
    response: Any, asked: Iterable[TopicPartition], node: int
) -> dict[TopicPartition, Producers | Problem]:
    found: dict[TopicPartition, Producers | Problem] = {}
    with unpacking(f"producers from broker {node}"):
        answers = {
            (topic.name, each.partition_index): each for topic in response.topics for each in topic.partitions
        }
        for where in asked:
            answer = answers.get(where)
            if answer is None or answer.error_code:
                what = f"producers of {where} from broker {node}"
                found[where] = left_out(what) if answer is None else refused(answer.error_code, what)
            else:
                found[where] = {state.producer_id: _state(state) for state in answer.active_producers or ()}
    return found


def _state(state: Any) -> ProducerState:
    return ProducerState(
        epoch=state.producer_epoch,
        last_sequence=state.last_sequence,
        last_timestamp=state.last_timestamp,
        transaction_start=state.current_txn_start_offset,
        coordinator_epoch=state.coordinator_epoch,
    )
