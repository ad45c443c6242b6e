"""Whether brokers have removed the fillers of a compacted topic, replica by replica: each broker cleans its own copy.

    highest filler of each partition ─▶ is it still there? asked of every replica, again and again ─▶ clean

How a replica is asked: replica_fillers.py. Which brokers have one is read anew each time: one that was added meanwhile
must be clean, too. A replica that is clean is not asked again before the others of its partition are; then all are once
more. Reads only.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from heliograph.cluster.admin import read_broker_configs
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.replica_reads import read_log_sizes, read_replicas
from heliograph.controller.replica_fillers import ReplicaFillers
from heliograph.model.clock import Clock, clock_of_waits
from heliograph.model.errors import BrokerRefused, HeliographError
from heliograph.model.partition import TopicPartition

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
        self._fillers = ReplicaFillers(client)
        self._left = list(self._wheres)  # partitions that are not clean on all replicas
        self._clean: defaultdict[TopicPartition, set[int]] = defaultdict(set)  # which of them are

    async def prepare(self) -> None:
        """The highest filler of each partition, by its leader. `CleanerIdle` where a broker's cleaner is off."""
        replicas = await read_replicas(self._client, self._topic)
        await self._check_cleaners({node for nodes in replicas.nodes.values() for node in nodes})
        for where in self._wheres:
            leader = self._client.leader(where)
            if leader is not None:
                await self._fillers.find(where, leader.node)

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
            if not self._left:
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
        """Brokers that hold a filler of the topic, as far as they were asked."""
        found: set[int] = set()
        for where in self._left:
            nodes = replicas.get(where.partition, ())
            clean = self._clean[where] & set(nodes)
            asked = [node for node in nodes if node not in clean]
            clean |= {node for node in asked if not await self._fillers.are_left(where, node)}
            show(where.partition, len(clean))
            found |= set(nodes) - clean
            if 0 < len(nodes) == len(clean) == len(asked):
                self._left = [each for each in self._left if each != where]
            # All are clean, but not by one look: then all are asked once more. One that was clean may have lost its
            # disk since, and have copied the fillers of another.
            self._clean[where] = clean if len(clean) < len(nodes) else set()
        return found

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
