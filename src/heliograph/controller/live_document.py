"""What a running mirror says of itself on its live socket, and what whoever asked makes of several such answers.

Must not know the clusters: what they show is status.py's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from heliograph.controller.drivership import Active, Role, Standby
from heliograph.controller.mirror import Mirror
from heliograph.controller.snapshot import LinkAway, LinkSnapshot
from heliograph.model.link import Link
from heliograph.model.link_status import LinkStatus, RoleName, decode_link, encode_link
from heliograph.model.occurrence import encode_occurrence
from heliograph.model.partition_status import Document, PartitionStatus, decode_document, encode_document

Surveyed = LinkSnapshot | LinkAway


def live_document(mirror: Mirror) -> Document:
    """What a running mirror answers on its socket."""
    return {
        "links": {link.name: encode_link(_link_status(mirror, link)) for link in mirror.settings.links},
        "lanes": [{"lane": lane.lane, "pid": lane.pid, "host": lane.host} for lane in mirror.lanes],
        "partitions": [encode_document(row) for row in mirror.board.rows.values()],
        "events": {
            "counts": mirror.outbox.counts,
            "last": [encode_occurrence(each) for each in mirror.outbox.last],
        },
    }


def _link_status(mirror: Mirror, link: Link) -> LinkStatus:
    source_id, target_id = mirror.cluster_ids.get(link.name, (None, None))
    records_per_s, bytes_per_s = mirror.board.rates(link.name)
    return LinkStatus(
        link=link.name,
        source=link.source,
        target=link.target,
        servers=mirror.settings.servers(link),
        source_cluster_id=source_id,
        target_cluster_id=target_id,
        role=_role_name(mirror.roles.get(link.name)),
        records_per_s=round(records_per_s, 1),
        bytes_per_s=round(bytes_per_s, 1),
        bound_by=mirror.board.bound_by(link.name),
        waits=mirror.waiting.get(link.name),
    )


def _role_name(role: Role | None) -> RoleName:
    match role:
        case Active():
            return RoleName.ACTIVE
        case Standby():
            return RoleName.STANDBY
    return RoleName.SEEKING


def heard(live: Iterable[Document], surveyed: Mapping[str, Surveyed]) -> dict[str, LinkStatus]:
    """What running mirrors say of these links; an answer of another shape is as good as none.

    So is one about other clusters: two configs of one user may both have a link of this name.
    """
    told: dict[str, LinkStatus] = {}
    for document in live:
        try:
            links = _links(document)
        except (AttributeError, KeyError, TypeError, ValueError):
            continue
        for link in links:
            if link.link in surveyed and _is_of(link, surveyed[link.link]):
                told[link.link] = _joined(told.get(link.link), link)
    return told


def _links(document: Document) -> list[LinkStatus]:
    rows: defaultdict[str, list[PartitionStatus]] = defaultdict(list)
    for row in map(decode_document, document["partitions"]):
        rows[row.partition.link].append(row)
    return [
        replace(decode_link(name, each), partitions=tuple(rows[name]))
        for name, each in document["links"].items()
    ]


def _is_of(told: LinkStatus, seen: Surveyed) -> bool:
    """Whether it is of the same clusters: by their ids, or where one cannot be asked, by how to reach it."""
    ids = (seen.source_cluster_id, seen.target_cluster_id)
    servers = seen.servers if isinstance(seen, LinkAway) else ("", "")
    told_ids = (told.source_cluster_id, told.target_cluster_id)
    return all(
        told_ids[side] == ids[side] if ids[side] is not None else told.servers[side] == servers[side]
        for side in (0, 1)
    )


def _joined(before: LinkStatus | None, told: LinkStatus) -> LinkStatus:
    """Who holds a partition knows how it stands; one that is kept from it is heard only where nobody else is. So is a
    run that stands by, of the link as a whole."""
    stands_by = told.role is RoleName.STANDBY
    known = {row.partition: row for row in before.partitions} if before is not None else {}
    kept = {row.partition: row for row in told.partitions if row.held_by is not None}
    holds = {row.partition: row for row in told.partitions if row.held_by is None and not stands_by}
    speaks = before if before is not None and stands_by else told
    return replace(speaks, partitions=tuple({**kept, **known, **holds}.values()))
