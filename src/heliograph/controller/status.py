"""The status document (heliograph.status/1): what both clusters show, with what a running mirror adds.

`next_offset` comes from what is durable on the target, so the lag is right whether or not a mirror runs. What only
a running mirror knows is null without one, and the state is `unknown`, unless the target's ledger says that the
partition is stopped or paused. Where a running mirror speaks, its word counts. Of a link whose cluster is away it is
all there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from heliograph.cluster.at_most import at_most
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.log_reads import read_batch
from heliograph.controller.clusters import Clusters
from heliograph.controller.ledger_sight import NOT_SEEN, LedgerSight
from heliograph.controller.ledger_word import as_recorded
from heliograph.controller.live_document import Surveyed, heard
from heliograph.controller.snapshot import LinkAway, LinkSnapshot, PartitionSight
from heliograph.model.errors import ProtocolError, RequestFailed
from heliograph.model.link_status import LinkStatus, published_link
from heliograph.model.partition import MirrorPartition
from heliograph.model.partition_filter import EVERY_PARTITION, PartitionFilter
from heliograph.model.partition_status import Document, PartitionStatus
from heliograph.model.states import PartitionState
from heliograph.wire.batch import MAGIC

SCHEMA = "heliograph.status/1"
READS_AT_ONCE = 64


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

    async def row(topic: str, number: int, sight: PartitionSight) -> PartitionStatus:
        key = MirrorPartition(snapshot.link.name, topic, snapshot.link.target_topic(topic), number)
        return await _partition(rows.get(key, PartitionStatus(partition=key)), sight, source, now)

    sights = ((topic.name, n, sight) for topic in snapshot.sources for n, sight in topic.partitions.items())
    partitions = await at_most(READS_AT_ONCE, (partial(row, *seen) for seen in sights))
    return replace(told, partitions=tuple(partitions))


async def _partition(
    told: PartitionStatus, sight: PartitionSight, source: ClusterClient, now: datetime
) -> PartitionStatus:
    """What is told, with what both clusters show in its place."""
    seen = told._replace(
        source_start=sight.source.start if sight.source else None,
        source_end=sight.source_end,
        next_offset=_next_offset(sight),
        target_end=sight.target.high_watermark if sight.target else None,
        error=told.problem or _unseen(sight),
    )
    return seen._replace(lag_ms=await _lag_ms(source, seen, now))


def _next_offset(sight: PartitionSight) -> int | None:
    """What is durable on the target; 0 where there is no target yet, None where it could not be read."""
    if sight.target is not None:
        return sight.target.high_watermark
    return None if sight.unreadable else 0


def _unseen(sight: PartitionSight) -> str | None:
    """Why an end could not be read. A target that is being written right now is as it should be."""
    return None if sight.source is not None and sight.target is not None else sight.unreadable


async def _lag_ms(source: ClusterClient, seen: PartitionStatus, now: datetime) -> int | None:
    """Now minus the timestamp of the first record that is not copied yet."""
    if not seen.lag_records:
        return seen.lag_records
    try:
        first = await read_batch(source, seen.partition.source, seen.next_offset or 0)
    except (RequestFailed, ProtocolError):
        return None
    if first is None:
        return None
    header = first[0]
    # Messages of format 1 have one timestamp, and compressed ones their latest; those of format 0 have none.
    time_ms = header.base_timestamp if header.magic == MAGIC else header.max_timestamp
    return max(int(now.timestamp() * 1000) - time_ms, 0) if time_ms >= 0 else None
