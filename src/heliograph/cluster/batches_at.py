"""One batch of each of many partitions, in few fetches.

Only the first partition of a fetch is sure to get a whole batch. At first each partition has a small share of the
answer. One whose batch is larger is asked for again with a larger share, among fewer, and at last by itself: then its
batch comes whole, however large it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from heliograph.cluster.by_leader import PORTION, Epochs, Problem, ask_leaders
from heliograph.cluster.client import CONTROL, ClusterClient
from heliograph.cluster.fetches import fetch
from heliograph.cluster.messages import left_out, raise_for, refused
from heliograph.model.errors import ProtocolError
from heliograph.model.partition import TopicPartition
from heliograph.wire.batch import BatchHeader, split_batches
from heliograph.wire.fetch import FetchedPartition, FetchReply, FetchWant
from heliograph.wire.fetch_request import FetchAsk

ANSWER_BYTES = 16 << 20
SHARES_BYTES = (8 << 10, 128 << 10, 2 << 20)
ALONE_BYTES = 1  # one whole batch comes in any case
LAST_WAIT_MS = 1000
QUOTA_ROUNDS = 10

T = TypeVar("T")


class _TooLarge:
    """For its share of an answer."""


async def batches_at(
    client: ClusterClient, offsets: Mapping[TopicPartition, int], read: Callable[[BatchHeader, memoryview], T]
) -> dict[TopicPartition, T | Problem | None]:
    """What `read` makes of the batch that holds the offset or, where there is a hole, of the next one; None past the
    high watermark. `read` is given a view into a whole answer: to keep a part of it is to keep all."""
    found: dict[TopicPartition, T | Problem | None] = {}
    left: Mapping[TopicPartition, int] = offsets
    for share_bytes in SHARES_BYTES:
        most = min(ANSWER_BYTES // share_bytes, PORTION)
        answers = await _ask(client, left, read, share_bytes, most)
        found |= {where: each for where, each in answers.items() if not isinstance(each, _TooLarge)}
        left = {where: offset for where, offset in left.items() if where not in found}
    for where, each in (await _ask(client, left, read, ALONE_BYTES, 1)).items():
        found[where] = None if isinstance(each, _TooLarge) else each  # nothing of the log is there
    return found


async def _ask(
    client: ClusterClient,
    offsets: Mapping[TopicPartition, int],
    read: Callable[[BatchHeader, memoryview], T],
    share_bytes: int,
    most: int,
) -> dict[TopicPartition, T | Problem | _TooLarge | None]:
    is_last = share_bytes == ALONE_BYTES

    async def ask(node: int, epochs: Epochs) -> dict[TopicPartition, T | Problem | _TooLarge | None]:
        wants = [
            FetchWant(where.topic, where.partition, offsets[where], share_bytes, epoch)
            for where, epoch in epochs.items()
        ]
        reply = await fetch_in_quota(
            client,
            node,
            wants,
            what=f"a fetch from broker {node}",
            max_bytes=ALONE_BYTES if is_last else ANSWER_BYTES,
            max_wait_ms=LAST_WAIT_MS if is_last else 0,
        )
        answers = {(each.topic, each.partition): each for each in reply.partitions}
        return {where: _read(where, offsets[where], answers.get(where), read, node) for where in epochs}

    return await ask_leaders(client, offsets, ask, most=most)


def _read(
    where: TopicPartition,
    offset: int,
    fetched: FetchedPartition | None,
    read: Callable[[BatchHeader, memoryview], T],
    node: int,
) -> T | Problem | _TooLarge | None:
    what = f"fetch of {where} at {offset} from broker {node}"
    if fetched is None:
        return left_out(what)
    if fetched.error:
        return refused(fetched.error, what)
    try:
        for header, view in split_batches(fetched.records):
            if header.next_offset > offset:
                return read(header, view)
    except ProtocolError as problem:
        return problem
    return None if 0 <= fetched.high_watermark <= offset else _TooLarge()


async def fetch_in_quota(
    client: ClusterClient,
    node: int,
    wants: Sequence[FetchWant],
    *,
    what: str,
    max_bytes: int,
    max_wait_ms: int,
    committed: bool = False,
) -> FetchReply:
    """One fetch beside those of the copier; over a quota a broker leaves all partitions out, and is asked again."""
    for _ in range(QUOTA_ROUNDS):
        reply = await fetch(
            client,
            node,
            CONTROL,
            FetchAsk(list(wants), []),
            min_bytes=1,
            max_bytes=max_bytes,
            max_wait_ms=max_wait_ms,
            read_committed=committed,
        )
        raise_for(reply.error, what)
        if reply.partitions or not reply.throttle_ms:
            break
        await asyncio.sleep(reply.throttle_ms / 1000)
    return reply
