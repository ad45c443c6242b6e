"""Whether brokers have removed the fillers of a compacted topic, replica by replica: each broker cleans its own copy.

    highest filler of each partition ─▶ is it still there? asked of every replica, again and again ─▶ clean

Cleaners go through a log from its start: when the highest filler is gone, all are. Where it is not known, by a run that
has taken over, each replica is searched for one (copier/find_filler.py). Which brokers have a replica is read anew each
time: one that was added meanwhile must be clean, too. Reads only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from heliograph.cluster.admin import read_broker_configs
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.log_reads import Batches, read_span
from heliograph.cluster.replica_reads import read_log_sizes, read_replica_batches, read_replicas
from heliograph.copier.find_filler import last_filler
from heliograph.copier.questions import ReadTargetBatches
from heliograph.model.clock import Clock, clock_of_waits
from heliograph.model.errors import BrokerRefused, HeliographError
from heliograph.model.partition import TopicPartition
from heliograph.wire.filler import last_filler_offset
from heliograph.wire.kernels.loading import Kernels, loaded, wait

LOOK_S = 0.5
STILL_LIMIT_S = 600.0  # brokers clean one log after the other, and look for work every 15 s
_CLEANER = "log.cleaner.enable"

Shown = Callable[[int, int], None]  # partition, and how many of its replicas are clean


class CleanerIdle(HeliographError):
    """Brokers do not remove the fillers, and will not."""


class Cleaning:
    """Of one topic, by its name and its id. `prepare` before brokers begin, then `until_clean`; or that alone."""

    def __init__(
        self,
        client: ClusterClient,
        topic: str,
        topic_id: str,
        partitions: int,
        *,
        clock: Clock = clock_of_waits,
    ) -> None:
        self._client = client
        self._topic_id = topic_id
        self._wheres = [TopicPartition(topic, number) for number in range(partitions)]
        self._topic = topic
        self._clock = clock
        self._highest: dict[TopicPartition, int] = {}  # fillers that were seen

    async def prepare(self) -> None:
        """The highest filler of each partition, by its leader. `CleanerIdle` where a broker's cleaner is off."""
        replicas = await read_replicas(self._client, self._topic)
        await self._check_cleaners({node for nodes in replicas.nodes.values() for node in nodes})
        for where in self._wheres:
            leader = self._client.leader(where)
            if leader is not None:
                await self._search(where, leader.node)

    async def until_clean(self, show: Shown) -> bool:
        """False: it is another topic by now."""
        sizes, moved_at, checked = None, self._clock(), False
        while True:
            found = await read_replicas(self._client, self._topic)
            if found.topic_id != self._topic_id:
                return False
            replicas = found.nodes
            nodes = sorted({node for each in replicas.values() for node in each})
            if not checked:
                await self._check_cleaners(nodes)
                checked = True
            unclean = await self._unclean(replicas, show)
            if not unclean:
                return True
            now_sizes = [await self._sizes(node) for node in nodes]
            if now_sizes != sizes:
                sizes, moved_at = now_sizes, self._clock()
            if self._clock() - moved_at >= STILL_LIMIT_S:
                raise CleanerIdle(
                    f"brokers {_listed(unclean)} have not removed fillers of topic {self._topic} for"
                    f" {STILL_LIMIT_S / 60:.0f} minutes",
                    hint="see log-cleaner.log of these brokers: a cleaner that has failed starts again with its broker",
                )
            await asyncio.sleep(LOOK_S)

    async def _unclean(self, replicas: Mapping[int, tuple[int, ...]], show: Shown) -> set[int]:
        """Brokers that hold a filler of the topic."""
        found: set[int] = set()
        for where in self._wheres:
            nodes = replicas.get(where.partition, ())
            dirty = {node for node in nodes if await self._holds_filler(where, node)}
            show(where.partition, len(nodes) - len(dirty))
            found |= dirty
        return found

    async def _holds_filler(self, where: TopicPartition, node: int) -> bool:
        at = self._highest.get(where)
        if at is None:
            return await self._search(where, node) is not None
        batches = await read_replica_batches(self._client, node, where, at, at + 1)
        kernels = await self._kernels()
        fillers = (
            last_filler_offset(kernels, header, view, first_offset=at)
            for header, view in zip(batches.headers, batches.views, strict=True)
        )
        return any(offset is not None for offset in fillers)

    async def _kernels(self) -> Kernels:
        kernels = loaded()
        return kernels if kernels is not None else await asyncio.to_thread(wait)

    async def _search(self, where: TopicPartition, node: int) -> int | None:
        span = await read_span(self._client, where)
        searching = last_filler(await self._kernels(), span.start, span.high_watermark)
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
        if offset is not None:
            self._highest[where] = max(offset, self._highest.get(where, offset))
        return offset

    async def _check_cleaners(self, nodes: Iterable[int]) -> None:
        """A broker that does not say is asked by its deeds."""
        for node in nodes:
            try:
                configs = await read_broker_configs(self._client, node, [_CLEANER])
            except BrokerRefused:
                continue
            if configs.get(_CLEANER) == "false":
                raise CleanerIdle(
                    f"broker {node} has {_CLEANER}=false: it compacts no topic, and would keep the fillers",
                    hint=f"set {_CLEANER}=true on the target's brokers",
                )

    async def _sizes(self, node: int) -> dict[int, int] | None:
        try:
            return await read_log_sizes(self._client, node, self._topic, len(self._wheres))
        except BrokerRefused:
            return None  # a right is missing: time alone tells


def _listed(nodes: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(nodes)))
