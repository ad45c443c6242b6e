"""ListOffsets: where logs start and end, and which record is the first of a time, of many partitions in one request.

Nothing is clamped or defaulted: an answer is what the leader said, or why it said nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

from heliograph.cluster.by_leader import Epochs, Problem, ask_leaders
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.messages import left_out, refused, unpacking
from heliograph.model.partition import TopicPartition

LATEST, EARLIEST = -1, -2
CONSUMER = -1
# Neither a consumer (-1) nor a debugger (-2): a broker answers any other id with the log's end, not with the
# high watermark, and asks for no further right than DESCRIBE on the topic.
OURSELVES = 0x48454C49


@dataclass(frozen=True, slots=True)
class DatedRecord:
    offset: int
    time_ms: int


async def list_offsets(
    client: ClusterClient, times: Mapping[TopicPartition, int], *, replica: int, committed: bool = False
) -> dict[TopicPartition, DatedRecord | Problem]:
    """`times`: LATEST, EARLIEST, or milliseconds. Brokers before Kafka 0.10.1 (version 0) know times by segments only:
    of a time they tell where a segment starts that was last written before it. So what is found may be older than was
    asked for, never younger."""

    async def ask(node: int, epochs: Epochs) -> dict[TopicPartition, DatedRecord | Problem]:
        asked = {where: times[where] for where in epochs}
        return await list_offsets_led(client, node, epochs, asked, replica=replica, committed=committed)

    return await ask_leaders(client, times, ask)


async def list_offsets_led(
    client: ClusterClient,
    node: int,
    epochs: Epochs,
    times: Mapping[TopicPartition, int],
    *,
    replica: int,
    committed: bool = False,
) -> dict[TopicPartition, DatedRecord | Problem]:
    """Of partitions that this broker leads, in one request."""

    async def send(times: Mapping[TopicPartition, int]) -> Any:
        timeout_ms = client.properties.request_timeout_ms
        request = offsets_request(times, epochs, replica=replica, committed=committed, timeout_ms=timeout_ms)
        return await client.call(node, request, ListOffsetsResponse)

    found, too_old = _found(await send(times), times, node)
    if too_old:
        earliest = dict.fromkeys(too_old, EARLIEST)
        found |= _found(await send(earliest), earliest, node)[0]
    return found


def offsets_request(
    times: Mapping[TopicPartition, int], epochs: Epochs, *, replica: int, committed: bool, timeout_ms: int
) -> Any:
    topic = ListOffsetsRequest.ListOffsetsTopic
    by_topic: defaultdict[str, list[Any]] = defaultdict(list)
    for where, time_ms in times.items():
        asked = topic.ListOffsetsPartition(
            partition_index=where.partition, current_leader_epoch=epochs[where], timestamp=time_ms
        )
        by_topic[where.topic].append(asked)
    return ListOffsetsRequest(
        replica_id=replica,
        isolation_level=int(committed),
        topics=[topic(name=name, partitions=partitions) for name, partitions in by_topic.items()],
        timeout_ms=timeout_ms,
    )


def _found(
    response: Any, asked: Mapping[TopicPartition, int], node: int
) -> tuple[dict[TopicPartition, DatedRecord | Problem], list[TopicPartition]]:
    """And those of which version 0 says that no segment is as old."""
    found: dict[TopicPartition, DatedRecord | Problem] = {}
    too_old: list[TopicPartition] = []
    is_first_version = getattr(response, "version", None) == 0
    with unpacking(f"offsets from broker {node}"):
        answers = {
            (topic.name, each.partition_index): each for topic in response.topics for each in topic.partitions
        }
        for where, time_ms in asked.items():
            answer = answers.get(where)
            if answer is None or answer.error_code:
                what = f"offsets of {where} from broker {node}"
                found[where] = left_out(what) if answer is None else refused(answer.error_code, what)
                continue
            older = getattr(answer, "old_style_offsets", None)  # of version 0 only: the highest first
            if is_first_version and not older and time_ms >= 0:
                too_old.append(where)
                continue
            offset = older[0] if older else answer.offset
            found[where] = DatedRecord(int(offset), int(getattr(answer, "timestamp", -1)))
    return found, too_old
