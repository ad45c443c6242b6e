"""The status document (heliograph.status/1): what both clusters show, with what a running mirror adds.

`next_offset` comes from what is durable on the target, so the lag is right whether or not a mirror runs. What only
a running mirror knows is null without one, and the state is `unknown`, unless the target's ledger says that the
partition is stopped or paused. Where a running mirror speaks, its word counts. Of a link whose cluster is away it is
all there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from heliograph.cluster.client import ClusterClient
from heliograph.controller.clusters import Clusters
from heliograph.controller.lag_times import read_times
from heliograph.controller.ledger_sight import NOT_SEEN, LedgerSight
from heliograph.controller.ledger_word import as_recorded
from heliograph.controller.live_document import Surveyed, heard
from heliograph.controller.snapshot import LinkAway, LinkSnapshot, PartitionSight, SourceTopic
from heliograph.model.link_status import LinkStatus, published_link
from heliograph.model.partition import MirrorPartition
from heliograph.model.partition_filter import EVERY_PARTITION, PartitionFilter
from heliograph.model.partition_status import Document, PartitionStatus
from heliograph.model.states import PartitionState

SCHEMA = "heliograph.status/1"


async def status_document(
    surveyed: Iterable[Surveyed],
    clusters: Clusters,
    live: Iterable[Document],
    now: datetime,
    ledgers: Mapping[str, LedgerSight] | None = None,
    shown: PartitionFilter = EVERY_PARTITION,
) -> Document:
    """`live`: the answers of running mirrors. `ledgers`: by link. Of a link, state and lag are those of the partitions
    that `shown` means, also of those that it does not list."""
    surveyed = list(surveyed)
    links = await link_statuses(surveyed, clusters, live, now)
    recorded = (
        _recorded(seen, link, (ledgers or {}).get(link.link, NOT_SEEN))
        for seen, link in zip(surveyed, links, strict=True)
    )
    return {
        "schema": SCHEMA,
        "at": now.astimezone(UTC).isoformat(timespec="milliseconds"),
        "links": [published_link(_meant(link, shown), shown) for link in recorded],
    }


def _meant(status: LinkStatus, shown: PartitionFilter) -> LinkStatus:
    return replace(status, partitions=tuple(row for row in status.partitions if shown.means(row.partition)))


async def link_statuses(
    surveyed: Iterable[Surveyed], clusters: Clusters, live: Iterable[Document], now: datetime
) -> list[LinkStatus]:
    """What clusters and running mirrors say, and no ledger."""
    by_link = {seen.link.name: seen for seen in surveyed}
    told = heard(live, by_link)
    return [
        _away(seen, _told_of(seen, told))
        if isinstance(seen, LinkAway)
        else await _observed(seen, clusters.source(name), _told_of(seen, told), now)
        for name, seen in by_link.items()
    ]


def _recorded(seen: Surveyed, status: LinkStatus, ledger: LedgerSight) -> LinkStatus:
    if isinstance(seen, LinkAway):
        return status

    def row(known: PartitionStatus) -> PartitionStatus:
        if known.state is not PartitionState.UNKNOWN and known.held_by is None:
            return known
        target = known.partition.target
        return as_recorded(known, ledger.recorded.word(target, seen.target_topic_id(target.topic)))

    return replace(status, partitions=tuple(map(row, status.partitions)))


def _told_of(seen: Surveyed, told: dict[str, LinkStatus]) -> LinkStatus:
    """With the names and ids that are known here."""
    link = told.get(seen.link.name, LinkStatus(link=seen.link.name))
    return replace(
        link,
        source=seen.link.source,
        target=seen.link.target,
        source_cluster_id=seen.source_cluster_id or link.source_cluster_id,
        target_cluster_id=seen.target_cluster_id or link.target_cluster_id,
    )


def _away(away: LinkAway, told: LinkStatus) -> LinkStatus:
    """What the clusters would have to say is not known."""
    rows = sorted(told.partitions, key=lambda row: row.partition)
    partitions = tuple(row._replace(source_end=None) for row in rows)
    return replace(told, error=away.problem.message, hint=away.problem.hint, partitions=partitions)


async def _observed(
    snapshot: LinkSnapshot, source: ClusterClient, told: LinkStatus, now: datetime
) -> LinkStatus:
    rows = {row.partition: row for row in told.partitions}
    seen = [
        _partition(rows.get(key, PartitionStatus(partition=key)), sight)
        for topic in snapshot.sources
        for key, sight in _keyed(snapshot, topic)
    ]
    behind = {row.partition.source: row.next_offset or 0 for row in seen if row.lag_records}
    times = await read_times(source, behind)
    return replace(
        told, partitions=tuple(_with_lag(row, times.get(row.partition.source), now) for row in seen)
    )


def _keyed(snapshot: LinkSnapshot, topic: SourceTopic) -> Iterator[tuple[MirrorPartition, PartitionSight]]:
    target = snapshot.link.target_topic(topic.name)
    for number, sight in topic.partitions.items():
        yield MirrorPartition(snapshot.link.name, topic.name, target, number), sight


def _partition(told: PartitionStatus, sight: PartitionSight) -> PartitionStatus:
    """What is told, with what both clusters show in its place."""
    return told._replace(
        source_start=sight.source.start if sight.source else None,
        source_end=sight.source_end,
        next_offset=_next_offset(sight),
        target_end=sight.target.high_watermark if sight.target else None,
        error=told.problem or _unseen(sight),
    )


def _with_lag(row: PartitionStatus, time_ms: int | None, now: datetime) -> PartitionStatus:
    """Now minus the timestamp of the first record that is not copied yet."""
    if not row.lag_records:
        return row._replace(lag_ms=row.lag_records)
    if time_ms is None:
        return row._replace(lag_ms=None)
    return row._replace(lag_ms=max(int(now.timestamp() * 1000) - time_ms, 0))


def _next_offset(sight: PartitionSight) -> int | None:
    """What is durable on the target; 0 where there is no target yet, None where it could not be read."""
    if sight.target is not None:
        return sight.target.high_watermark
    return None if sight.unreadable else 0


def _unseen(sight: PartitionSight) -> str | None:
    """Why an end could not be read. A target that is being written right now is as it should be."""
    return None if sight.source is not None and sight.target is not None else sight.unreadable
