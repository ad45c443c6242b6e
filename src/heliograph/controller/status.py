"""The status document (heliograph.status/1): what both clusters show, with what a running mirror adds.

`next_offset` comes from what is durable on the target, so the lag is right whether or not a mirror runs. What only
a running mirror knows is null without one, and the state is `unknown`. Of a link whose cluster is away a running
mirror's word is all there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from heliograph.cluster.at_most import at_most
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.log_reads import read_batch
from heliograph.controller.board import BoardRow
from heliograph.controller.clusters import Clusters
from heliograph.controller.drivership import Active, Role, Standby
from heliograph.controller.mirror import Mirror
from heliograph.controller.snapshot import LinkAway, LinkSnapshot, PartitionSight
from heliograph.model.errors import ProtocolError, RequestFailed
from heliograph.model.partition import MirrorPartition, TopicPartition
from heliograph.model.states import PartitionState

SCHEMA = "heliograph.status/1"
READS_AT_ONCE = 64
_TOLD = ("state", "next_offset", "lane", "error", "hint")

ACTIVE, STANDBY, SEEKING = "active", "standby", "seeking"

Row = dict[str, Any]


def role_name(role: Role | None) -> str:
    match role:
        case Active():
            return ACTIVE
        case Standby():
            return STANDBY
    return SEEKING


def live_document(mirror: Mirror) -> Row:
    """What a running mirror answers on its socket."""
    board = mirror.board
    rates = {link.name: board.rates(link.name) for link in mirror.settings.links}
    servers = {link.name: list(mirror.settings.servers(link)) for link in mirror.settings.links}
    return {
        "links": {
            link: {
                "source_cluster_id": mirror.cluster_ids.get(link, (None, None))[0],
                "target_cluster_id": mirror.cluster_ids.get(link, (None, None))[1],
                "role": role_name(mirror.roles.get(link)),
                "records_per_s": round(records, 1),
                "bytes_per_s": round(size, 1),
                "bound_by": board.bound_by(link),
                "servers": servers[link],
            }
            for link, (records, size) in rates.items()
        },
        "lanes": [{"lane": lane.lane, "pid": lane.pid, "host": lane.host} for lane in mirror.lanes],
        "partitions": [
            {
                "key": list(row.partition),
                "state": row.state,
                "next_offset": row.next_offset,
                "lane": row.lane,
                "error": row.error or _held(row) or row.trouble,
                "hint": row.hint,
                "held_by": row.held_by,
            }
            for row in board.rows.values()
        ],
    }


def _held(row: BoardRow) -> str | None:
    if row.held_by is None:
        return None
    return f"it is held by {row.held_by}; this run takes it over when that one ends"


async def status_document(
    surveyed: Iterable[LinkSnapshot | LinkAway], clusters: Clusters, live: Iterable[Row], now: datetime
) -> Row:
    surveyed = list(surveyed)
    told, rates = _told(live, {seen.link.name: seen for seen in surveyed})
    links = [
        _away(seen, told, rates)
        if isinstance(seen, LinkAway)
        else await _link(seen, clusters.source(seen.link.name), told, rates, now)
        for seen in surveyed
    ]
    return {"schema": SCHEMA, "at": now.astimezone(UTC).isoformat(timespec="milliseconds"), "links": links}


def _told(
    live: Iterable[Row], surveyed: dict[str, LinkSnapshot | LinkAway]
) -> tuple[dict[MirrorPartition, Row], dict[str, Row]]:
    """What running mirrors say of partitions and links; an answer of another shape is as good as none.

    So is one about other clusters: two configs of one user may both have a link of this name.
    """
    partitions: dict[MirrorPartition, Row] = {}
    rates: dict[str, Row] = {}
    for document in live:
        try:
            rows = {MirrorPartition(*p["key"]): _row(p) for p in document["partitions"]}
            links = {
                name: dict(rate)
                for name, rate in document["links"].items()
                if name in surveyed and _is_of(rate, surveyed[name])
            }
        except (AttributeError, KeyError, TypeError, ValueError):
            continue
        standing_by = {name for name, link in links.items() if link.get("role") == STANDBY}
        # Who holds a partition knows how it stands; one that is kept from it is heard only where nobody else is.
        known = {key: row for key, row in rows.items() if key.link in links}
        kept = {key: row for key, row in known.items() if row["held_by"] is not None}
        holds = {key: row for key, row in known.items() if key not in kept and key.link not in standing_by}
        partitions = {**kept, **partitions, **holds}
        rates = {**{name: links[name] for name in standing_by}, **rates, **_less(links, standing_by)}
    return partitions, rates


def _row(told: Row) -> Row:
    return {**{key: told[key] for key in _TOLD}, "held_by": told.get("held_by")}


def _is_of(rate: Row, seen: LinkSnapshot | LinkAway) -> bool:
    """Whether it is of the same clusters: by their ids, or where one cannot be asked, by how to reach it."""
    ids = (seen.source_cluster_id, seen.target_cluster_id)
    told = (rate["source_cluster_id"], rate["target_cluster_id"])
    servers = seen.servers if isinstance(seen, LinkAway) else ("", "")
    return all(
        told[side] == ids[side] if ids[side] is not None else rate["servers"][side] == servers[side]
        for side in (0, 1)
    )


def _less(links: dict[str, Row], standing_by: set[str]) -> dict[str, Row]:
    """The active driver of a link knows; one that stands by is heard only where there is no other."""
    return {name: link for name, link in links.items() if name not in standing_by}


async def _link(
    snapshot: LinkSnapshot,
    source: ClusterClient,
    told: dict[MirrorPartition, Row],
    rates: dict[str, Row],
    now: datetime,
) -> Row:
    async def row(topic: str, number: int, sight: PartitionSight) -> Row:
        key = MirrorPartition(snapshot.link.name, topic, snapshot.link.target_topic(topic), number)
        return await _partition(key, sight, source, told.get(key), now)

    sights = ((topic.name, n, sight) for topic in snapshot.sources for n, sight in topic.partitions.items())
    rows = await at_most(READS_AT_ONCE, (partial(row, *seen) for seen in sights))
    return _summary(snapshot, rates, rows)


def _away(away: LinkAway, told: dict[MirrorPartition, Row], rates: dict[str, Row]) -> Row:
    mine = {key: row for key, row in told.items() if key.link == away.link.name}
    return _summary(away, rates, [_as_told(key, mine[key]) for key in sorted(mine)])


def _summary(seen: LinkSnapshot | LinkAway, rates: dict[str, Row], rows: Sequence[Row]) -> Row:
    rate = rates.get(seen.link.name, {})
    problem = seen.problem if isinstance(seen, LinkAway) else None
    return {
        "link": seen.link.name,
        "state": STANDBY if rate.get("role") == STANDBY else _overall([r["state"] for r in rows]),
        "source": seen.link.source,
        "target": seen.link.target,
        "source_cluster_id": seen.source_cluster_id or rate.get("source_cluster_id"),
        "target_cluster_id": seen.target_cluster_id or rate.get("target_cluster_id"),
        "lag_records": None if problem else _total([r["lag_records"] for r in rows]),
        "lag_ms": None if problem else _highest([r["lag_ms"] for r in rows]),
        "bytes_per_s": rate.get("bytes_per_s"),
        "records_per_s": rate.get("records_per_s"),
        "bound_by": rate.get("bound_by"),
        "error": problem.message if problem else None,
        "hint": problem.hint if problem else None,
        "partitions": list(rows),
    }


async def _partition(
    key: MirrorPartition, sight: PartitionSight, source: ClusterClient, told: Row | None, now: datetime
) -> Row:
    seen, target = sight.source, sight.target
    next_offset = _next_offset(sight)
    known = sight.source_end is not None and next_offset is not None
    lag = max((sight.source_end or 0) - (next_offset or 0), 0) if known else None
    lag_ms = await _lag_ms(source, key.source, next_offset or 0, lag, now)
    return {
        "source_topic": key.source_topic,
        "target_topic": key.target_topic,
        "partition": key.partition,
        "state": str(told["state"] if told else PartitionState.UNKNOWN),
        "source_start": seen.start if seen else None,
        "source_end": sight.source_end,
        "next_offset": next_offset,
        "target_end": target.high_watermark if target else None,
        "lag_records": lag,
        "lag_ms": lag_ms,
        "offsets": "identical",
        "lane": told["lane"] if told else None,
        "error": (told["error"] if told else None) or _unseen(sight),
        "hint": told["hint"] if told else None,
    }


def _as_told(key: MirrorPartition, told: Row) -> Row:
    """With the same keys as `_partition`: what the clusters would have to say is not known."""
    return {
        "source_topic": key.source_topic,
        "target_topic": key.target_topic,
        "partition": key.partition,
        "state": str(told["state"]),
        "source_start": None,
        "source_end": None,
        "next_offset": told["next_offset"],
        "target_end": None,
        "lag_records": None,
        "lag_ms": None,
        "offsets": "identical",
        "lane": told["lane"],
        "error": told["error"],
        "hint": told["hint"],
    }


def _next_offset(sight: PartitionSight) -> int | None:
    """What is durable on the target; 0 where there is no target yet, None where it could not be read."""
    if sight.target is not None:
        return sight.target.high_watermark
    return None if sight.unreadable else 0


def _unseen(sight: PartitionSight) -> str | None:
    """Why an end could not be read. A target that is being written right now is as it should be."""
    return None if sight.source is not None and sight.target is not None else sight.unreadable


async def _lag_ms(
    source: ClusterClient, where: TopicPartition, next_offset: int, lag: int | None, now: datetime
) -> int | None:
    """Now minus the timestamp of the first record that is not copied yet."""
    if not lag:
        return 0 if lag == 0 else None
    try:
        first = await read_batch(source, where, next_offset)
    except (RequestFailed, ProtocolError):
        return None
    if first is None or first[0].base_timestamp < 0:
        return None
    return max(int(now.timestamp() * 1000) - first[0].base_timestamp, 0)


def _overall(states: list[str]) -> str:
    """The state that most needs attention."""
    for state in (
        PartitionState.STOPPED,
        PartitionState.UNKNOWN,
        PartitionState.PENDING,
        PartitionState.ALIGNING,
        PartitionState.COPYING,
    ):
        if state in states:
            return str(state)
    return str(PartitionState.CAUGHT_UP if states else PartitionState.UNKNOWN)


def _total(values: list[int | None]) -> int | None:
    return None if None in values else sum(v for v in values if v is not None)


def _highest(values: list[int | None]) -> int | None:
    return None if None in values else max((v for v in values if v is not None), default=0)
