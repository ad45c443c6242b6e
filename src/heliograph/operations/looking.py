"""What an operator's commands need to know, read from both clusters, the ledger and running mirrors. Reads only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.group_reads import read_topic_groups
from heliograph.cluster.log_reads import LogSpan, read_span
from heliograph.controller.clusters import Clusters
from heliograph.controller.ledger_sight import NOT_SEEN, LedgerSight, look_at_ledgers
from heliograph.controller.live_socket import ask_all
from heliograph.controller.snapshot import LinkAway, LinkSnapshot
from heliograph.controller.status import link_statuses
from heliograph.model.errors import ClusterUnreachable, CommandRefused, ProtocolError, RequestFailed
from heliograph.model.link import Link
from heliograph.model.link_status import LinkStatus
from heliograph.model.partition import TopicPartition
from heliograph.model.settings import Settings
from heliograph.operations.views import PartitionView, TopicTrace, partition_views

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkView:
    """`traces`: by target topic, of those that are to be deleted."""

    snapshot: LinkSnapshot
    status: LinkStatus
    ledger: LedgerSight
    partitions: tuple[PartitionView, ...]
    traces: dict[str, TopicTrace] = field(default_factory=dict)

    @property
    def unread(self) -> dict[str, str]:
        """Target topics about which the ledger holds what this version cannot read."""
        return {
            view.where.target_topic: view.word.unread
            for view in self.partitions
            if view.word.unread is not None
        }


async def look_at_link(
    settings: Settings, link: Link, now: datetime, *, traced: Sequence[str] = (), tell: Tell
) -> LinkView:
    """`traced`: source topics whose target is to be deleted. `ClusterUnreachable` if a cluster is away,
    `CommandRefused` if the ledger cannot be read: who does not know what is recorded must not write."""
    tell(f"reading link {link.name} from clusters {link.source} and {link.target}")
    clusters = Clusters(replace(settings, links=(link,)))
    try:
        ((seen, status, ledger),) = await _look(clusters, now)
        if isinstance(seen, LinkAway):
            raise ClusterUnreachable(seen.problem.message, hint=seen.problem.hint)
        if ledger.problem is not None:
            raise CommandRefused(ledger.problem)
        topics = [link.target_topic(name) for name in traced if link.target_topic(name) in seen.targets]
        traces = await _traces(clusters.target(link.name), seen, topics, tell) if topics else {}
    finally:
        await clusters.aclose()
    views = partition_views(seen, status, ledger)
    return LinkView(snapshot=seen, status=status, ledger=ledger, partitions=views, traces=traces)


async def look_at_links(
    settings: Settings, links: Iterable[Link], now: datetime
) -> tuple[list[tuple[LinkStatus, Sequence[PartitionView]]], list[str]]:
    """All that can be seen, and what of it could not be read. The status of a link that is away says why."""
    clusters = Clusters(replace(settings, links=tuple(links)))
    try:
        looked = await _look(clusters, now)
    finally:
        await clusters.aclose()
    seen: list[tuple[LinkStatus, Sequence[PartitionView]]] = [
        (status, () if isinstance(each, LinkAway) else partition_views(each, status, ledger))
        for each, status, ledger in looked
    ]
    problems = {ledger.problem for _, _, ledger in looked if ledger.problem is not None}
    return seen, sorted(problems)


async def _look(
    clusters: Clusters, now: datetime
) -> list[tuple[LinkSnapshot | LinkAway, LinkStatus, LedgerSight]]:
    surveyed = await clusters.survey()
    live = await asyncio.to_thread(ask_all)
    ledgers = await look_at_ledgers(clusters, surveyed)
    statuses = await link_statuses(surveyed, clusters, live, now)
    return [
        (seen, status, ledgers.get(status.link, NOT_SEEN))
        for seen, status in zip(surveyed, statuses, strict=True)
    ]


async def _traces(
    target: ClusterClient, snapshot: LinkSnapshot, topics: Sequence[str], tell: Tell
) -> dict[str, TopicTrace]:
    tell(f"asking the consumer groups of cluster {target.name} for commits on {', '.join(topics)}")
    groups = await read_topic_groups(target, topics)
    numbers = {snapshot.link.target_topic(each.name): len(each.partitions) for each in snapshot.sources}
    return {
        topic: TopicTrace(
            groups=groups[topic],
            beyond={
                number: await _span(target, TopicPartition(topic, number))
                for number in range(numbers.get(topic, 0), snapshot.targets[topic].partitions)
            },
        )
        for topic in topics
    }


async def _span(target: ClusterClient, where: TopicPartition) -> LogSpan:
    try:
        return await read_span(target, where)
    except (RequestFailed, ProtocolError) as problem:
        raise CommandRefused(
            f"what would be lost cannot be said now: {where}: {problem.message}", hint="try again"
        ) from problem
