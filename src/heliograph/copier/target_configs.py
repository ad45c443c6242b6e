"""The configs of target topics, read again while their partitions are copied.

Owns what follows from a reading: a topic whose broker rewrites batches stops; batches are limited to what it takes as
one, and times to those that it takes; and a topic whose configs cannot be read several times in a row is told, because
such a switch would not be seen (P6). Must not know when to look: vigil.py does.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

from heliograph.cluster.admin import TopicConfig
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.ports import TargetPort
from heliograph.copier.route import Route
from heliograph.copier.spec import LIMITS, merged_limit
from heliograph.copier.target_takes import TIME_LIMITS, time_limits
from heliograph.model.admission import AS_THEY_ARE, Refused, admit_config
from heliograph.model.errors import ProtocolError, RequestFailed
from heliograph.model.events import Event, Trouble

ANSWER_LIMIT_S = 3.0
CONFIGS_AT_ONCE = 100  # topics in one request, with seven keys each
UNREAD_LIMIT = 3  # readings in a row: about 15 s; a controller or broker that restarts is back by then
NAMED_AT_MOST = 5  # topics in one message

ByTopic = Mapping[str, Sequence[Route]]


class TargetConfigs:
    """`on_change(copy)` is called for a copy that was stopped."""

    def __init__(self, on_change: Callable[[PartitionCopy], None]) -> None:
        self._on_change = on_change
        # How many readings in a row have failed. A topic that is not copied any more, or that was read, has no entry.
        self._unread: dict[TargetPort, Counter[str]] = {}

    def keep(self, targets: Mapping[TargetPort, object]) -> None:
        """Forget what was counted for all other clusters."""
        self._unread = {target: self._unread.get(target, Counter()) for target in targets}

    async def check(self, target: TargetPort, routes: Sequence[Route]) -> None:
        """In portions: what some brokers answer in time counts, whatever others do."""
        by_topic: dict[str, list[Route]] = defaultdict(list)
        for route in routes:
            by_topic[route.copy.spec.partition.target_topic].append(route)
        topics, unread = sorted(by_topic), {}
        for first in range(0, len(topics), CONFIGS_AT_ONCE):
            portion = topics[first : first + CONFIGS_AT_ONCE]
            for topic, config in (await _read(target, portion)).items():
                if config.problem is not None:
                    unread[topic] = config.problem
                elif (why := admit_config(config.effective)) is not None:
                    self._stop(by_topic[topic], why)
                else:
                    _limit(by_topic[topic], config.effective)
        self._count(target, unread, by_topic)

    def _stop(self, routes: Sequence[Route], why: Refused) -> None:
        for route in routes:
            if not route.copy.over:
                route.copy.stop(why.as_stop())
                self._on_change(route.copy)

    def _count(self, target: TargetPort, unread: Mapping[str, str], by_topic: ByTopic) -> None:
        """A topic is told once, when the limit is reached; and again only if it could be read in between."""
        before = self._unread.get(target, Counter())
        self._unread[target] = now = Counter({topic: before[topic] + 1 for topic in unread})
        by_problem: dict[str, list[str]] = defaultdict(list)
        for topic, problem in unread.items():
            if now[topic] == UNREAD_LIMIT:
                by_problem[problem].append(topic)
        for problem, topics in by_problem.items():
            _tell(by_topic[topics[0]][0].copy, topics, problem)


def _limit(routes: Sequence[Route], configs: Mapping[str, str]) -> None:
    for route in routes:
        route.copy.limited(merged_limit(configs, route.copy.spec.max_merged_bytes), time_limits(configs))


async def _read(target: TargetPort, topics: Sequence[str]) -> dict[str, TopicConfig]:
    """Of each of these topics; without an answer all have the same problem."""
    problem = "the answer leaves it out"
    configs: Mapping[str, TopicConfig] = {}
    try:
        async with asyncio.timeout(ANSWER_LIMIT_S):
            configs = await target.topic_configs(topics, [*AS_THEY_ARE, *LIMITS, *TIME_LIMITS])
    except TimeoutError:
        problem = f"no answer in {ANSWER_LIMIT_S:.0f} s"
    except (RequestFailed, ProtocolError) as failed:
        problem = failed.message
    unread = TopicConfig(own={}, effective={}, problem=problem)
    return {topic: configs.get(topic, unread) for topic in topics}


def _tell(copy: PartitionCopy, topics: Sequence[str], problem: str) -> None:
    """By one copy for all: a cluster that is away would be told for each of its topics."""
    more = f" and {len(topics) - NAMED_AT_MOST} more" if len(topics) > NAMED_AT_MOST else ""
    copy.tell(
        Trouble(
            Event.CONFIGS_UNREAD,
            f"the configs of target topics {', '.join(topics[:NAMED_AT_MOST])}{more} could not be read"
            f" {UNREAD_LIMIT} times in a row ({problem}): if {' or '.join(AS_THEY_ARE)} is changed now, it is not seen",
        )
    )
