"""Whether brokers have removed the fillers of a compacted topic, replica by replica: each broker cleans its own copy.

    highest filler of each partition ─▶ is it still there? asked of every replica, again and again ─▶ clean

How a replica is asked: replica_fillers.py. Which brokers have one is read anew each time: one that was added meanwhile
must be clean, too. A replica that is clean is not asked again before the others of its partition are; then all are once
more. Reads only.

A broker that does not answer is waited for, like in every other copy. One that answers and removes nothing for long, of
this topic or of any other that is built, has no cleaner at work (`CleanerIdle`). Who waits says for which brokers.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from heliograph.cluster.admin import read_broker_configs
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.replica_reads import read_replicas
from heliograph.controller.replica_fillers import ReplicaFillers
from heliograph.model.clock import Clock, clock_of_waits
from heliograph.model.errors import BrokerRefused, HeliographError, ProtocolError, RequestFailed
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

LOOK_S = 0.5
TELL_S = 60.0  # brokers look for work every 15 s, by default
STILL_LIMIT_S = 1800.0  # where keys do not fit a cleaner's memory it goes through a log several times
_CLEANER = "log.cleaner.enable"

Shown = Callable[[int, int], None]  # partition, and how many of its replicas are clean
Waits = Callable[[str | None], None]  # for what it waits, in words; None: brokers are at work


class CleanerIdle(HeliographError):
    """Brokers do not remove the fillers, and will not."""


class CleanerWatch:
    """When the brokers of a cluster were last seen to remove fillers, of any topic: each cleans one log after the
    other, and hundreds of topics may be built at once."""

    def __init__(self, clock: Clock = clock_of_waits) -> None:
        self.clock = clock
        self._moved_at: dict[int, float] = {}

    def moved(self, node: int) -> None:
        self._moved_at[node] = self.clock()

    def still_s(self, node: int, since: float) -> float:
        return self.clock() - max(self._moved_at.get(node, since), since)


@dataclass(slots=True)
class _Look:
    """At all replicas that are not known to be clean: the brokers that hold a filler, or may. Of some it is not known,
    and why: they do not answer (`away`), or not with what was asked for (`unread`)."""

    dirty: set[int] = field(default_factory=set)
    away: dict[int, str] = field(default_factory=dict)
    unread: dict[int, str] = field(default_factory=dict)


class Cleaning:
    """Of one topic, by its name and its id. `prepare` before brokers begin, then `until_clean`; or that alone."""

    def __init__(
        self, client: ClusterClient, topic: str, topic_id: str, partitions: int, watch: CleanerWatch
    ) -> None:
        self._client = client
        self._topic_id = topic_id
        self._topic = topic
        self._watch = watch
        self._fillers = ReplicaFillers(client)
        self._left = [TopicPartition(topic, number) for number in range(partitions)]  # not clean everywhere
        self._clean: defaultdict[TopicPartition, set[int]] = defaultdict(set)  # on which brokers they are
        self._since: dict[int, float] = {}  # when each broker was first asked, or did not answer last
        self._checked: set[int] = set()  # brokers that were asked whether their cleaner is on
        self._told: frozenset[tuple[str, int]] = frozenset()  # what is waited for

    async def prepare(self) -> None:
        """The highest filler of each partition, by its leader. `CleanerIdle` where a broker's cleaner is off."""
        replicas = await read_replicas(self._client, self._topic)
        await self._check_cleaners(replicas.nodes, _Look())
        for where in self._left:
            leader = self._client.leader(where)
            if leader is not None:
                await self._fillers.find(where, leader.node)

    async def until_clean(self, show: Shown, waits: Waits) -> bool:
        """False: it is another topic by now."""
        self._since = {}
        while True:
            replicas = await read_replicas(self._client, self._topic)
            if replicas.topic_id != self._topic_id:
                return False
            look = await self._look(replicas.nodes, show)
            if not self._left:
                return True
            self._tell(look, waits)
            self._give_up_on(look)
            await asyncio.sleep(LOOK_S)

    async def _look(self, replicas: Mapping[int, tuple[int, ...]], show: Shown) -> _Look:
        look = _Look()
        await self._check_cleaners(replicas, look)
        for where in list(self._left):
            nodes = replicas.get(where.partition, ())
            clean = self._clean[where] & set(nodes)
            asked = [node for node in nodes if node not in clean]
            clean |= {node for node in asked if await self._is_clean(where, node, look)}
            show(where.partition, len(clean))
            if 0 < len(nodes) == len(clean) == len(asked):
                self._left.remove(where)
            # All are clean, but not by one look: then all are asked once more. One that was clean may have lost its
            # disk since, and have copied the fillers of another.
            self._clean[where] = clean if len(clean) < len(nodes) else set()
        return look

    async def _is_clean(self, where: TopicPartition, node: int, look: _Look) -> bool:
        if node in look.away:  # it would only be waited for once more
            return False
        try:
            if not await self._fillers.are_left(where, node):
                self._watch.moved(node)
                return True
            if self._still_s(node) >= TELL_S and await self._fillers.are_fewer(where, node):
                self._watch.moved(node)
        except BrokerRefused as refused:
            if not ErrorCode.passes(refused.code):
                raise
            look.unread[node] = refused.message
        except ProtocolError as problem:
            look.unread[node] = problem.message
        except RequestFailed as failed:
            self._did_not_answer(node, failed, look)
        look.dirty.add(node)
        return False

    def _did_not_answer(self, node: int, failed: RequestFailed, look: _Look) -> None:
        look.away[node] = failed.message
        self._since[node] = self._watch.clock()

    def _still_s(self, node: int) -> float:
        return self._watch.still_s(node, self._since.setdefault(node, self._watch.clock()))

    def _tell(self, look: _Look, waits: Waits) -> None:
        """Once, when it is about other brokers than before."""
        still = [node for node in sorted(look.dirty - look.away.keys()) if self._still_s(node) >= TELL_S]
        words = {("away", node): f"broker {node} does not answer ({why})" for node, why in look.away.items()}
        words |= {
            ("unread", node): f"broker {node} cannot be read ({why})" for node, why in look.unread.items()
        }
        words |= {("still", node): f"broker {node} has removed none for a minute" for node in still}
        if words.keys() != self._told:
            self._told = frozenset(words)
            waits(f"brokers have to remove fillers: {'; '.join(words.values())}" if words else None)

    def _give_up_on(self, look: _Look) -> None:
        idle = {node for node in look.dirty if self._still_s(node) >= STILL_LIMIT_S}
        if not idle:
            return
        why = "".join(f"; broker {node}: {why}" for node, why in look.unread.items() if node in idle)
        raise CleanerIdle(
            f"brokers {_listed(idle)} have not removed fillers of topic {self._topic} for"
            f" {STILL_LIMIT_S / 60:.0f} minutes{why}",
            hint="see log-cleaner.log of these brokers: a cleaner that has failed starts again with its broker",
        )

    async def _check_cleaners(self, replicas: Mapping[int, Collection[int]], look: _Look) -> None:
        """Once of each. A broker that does not say is asked by its deeds."""
        for node in sorted({node for nodes in replicas.values() for node in nodes} - self._checked):
            try:
                configs = await read_broker_configs(self._client, node, [_CLEANER])
            except BrokerRefused:
                configs = {}
            except RequestFailed as failed:
                self._did_not_answer(node, failed, look)
                continue
            self._checked.add(node)
            if configs.get(_CLEANER) == "false":
                raise CleanerIdle(
                    f"broker {node} has {_CLEANER}=false: it compacts no topic, and would keep the fillers",
                    hint=f"set {_CLEANER}=true on the target's brokers",
                )


def _listed(nodes: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(nodes)))
