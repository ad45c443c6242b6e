"""Whether a replica holds fillers still: what is asked of one broker about its own copy of a log. Reads only.

Cleaners go through a log from its start: when the highest filler is gone, all are. Where it is not known, by a run that
has taken over, the replica is searched for one (copier/find_filler.py). What a replica does not show may hold fillers:
one that was added, has lost its disk or has just started lags behind. A replica that is clean shows what comes behind
the last filler: the marker that ended the filling, if nothing else.

Whether a cleaner is at work on a replica shows in lower fillers that go, too: at STEPS offsets up to the highest one.
"""

from __future__ import annotations

import asyncio

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.log_reads import Batches, read_span
from heliograph.cluster.replica_reads import read_replica_batches
from heliograph.copier.find_filler import last_filler
from heliograph.copier.questions import ReadTargetBatches
from heliograph.model.errors import BrokerRefused
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.filler import last_filler_offset
from heliograph.wire.kernels.loading import Kernels, loaded, wait

STEPS = 64


class ReplicaFillers:
    """Of one topic."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._highest: dict[TopicPartition, int] = {}  # that were seen
        self._first_offset: dict[TopicPartition, int] = {}  # of logs that were searched
        self._steps: dict[tuple[TopicPartition, int], int] = {}  # how many of the offsets hold none any more

    async def find(self, where: TopicPartition, node: int) -> None:
        """The highest one, of a replica that nobody has cleaned yet: the others are asked for it."""
        await self._search(where, node)

    async def are_left(self, where: TopicPartition, node: int) -> bool:
        """Or may be: it does not show all of its log yet."""
        at = self._highest.get(where)
        if at is not None:
            return await self._holds(where, node, at)
        try:
            return await self._search(where, node)
        except BrokerRefused as refused:
            return _is_behind(refused)

    async def are_fewer(self, where: TopicPartition, node: int) -> bool:
        """Than when that was asked before; of a replica on which some are left."""
        first, highest = self._first_offset.get(where), self._highest.get(where)
        if first is None or highest is None:
            return False
        before = step = self._steps.get((where, node), 0)
        while step < STEPS and not await self._holds(where, node, first + (highest - first) * step // STEPS):
            step += 1
        self._steps[where, node] = step
        return step > before

    async def _holds(self, where: TopicPartition, node: int, at: int) -> bool:
        """At this offset, or behind it in the same batch; or nothing that is there is shown yet."""
        try:
            batches = await read_replica_batches(self._client, node, where, at, at + 1)
        except BrokerRefused as refused:
            return _is_behind(refused)
        kernels = await _kernels()
        fillers = (
            last_filler_offset(kernels, header, view, first_offset=at)
            for header, view in zip(batches.headers, batches.views, strict=True)
        )
        return batches.read_to <= at or any(offset is not None for offset in fillers)

    async def _search(self, where: TopicPartition, node: int) -> bool:
        span = await read_span(self._client, where)
        self._first_offset[where] = span.start
        searching = last_filler(await _kernels(), span.start, span.high_watermark)
        answer: Batches | None = None
        while True:
            try:
                question = searching.send(answer)
            except StopIteration as found:
                offset: int | None = found.value
                break
            assert isinstance(question, ReadTargetBatches)
            answer = await read_replica_batches(
                self._client, node, where, question.first_offset, question.next_offset
            )
            if answer.read_to < question.next_offset == span.high_watermark:
                return True  # it does not show the end of the log
        if offset is not None:
            self._highest[where] = max(offset, self._highest.get(where, offset))
        return offset is not None


def _is_behind(refused: BrokerRefused) -> bool:
    """It does not have the offset, or not yet."""
    if refused.code != ErrorCode.OFFSET_OUT_OF_RANGE:
        raise refused
    return True


async def _kernels() -> Kernels:
    kernels = loaded()
    return kernels if kernels is not None else await asyncio.to_thread(wait)
