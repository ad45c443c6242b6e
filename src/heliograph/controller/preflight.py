"""Preflight: whether a link can work, asked of both clusters before anything is written. Reads only.

All findings come at once. An error means that something will not work: the link, or the topics that it names. It is
for the caller to choose what to do about it; the mirror itself would stop each such partition, later, by itself (P6).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from heliograph.cluster.client import ClusterClient
from heliograph.controller.drivership import groups_of
from heliograph.controller.finding import Finding, Side
from heliograph.controller.preflight_brokers import (
    SOURCE_NEEDS,
    TARGET_NEEDS,
    check_answers,
    check_brokers,
    check_groups,
    check_topic_ids,
)
from heliograph.controller.preflight_gaps import check_deletions, check_markers
from heliograph.controller.preflight_ledger import check_ledger
from heliograph.controller.preflight_rights import check_source, check_target
from heliograph.controller.recorded import NOTHING_RECORDED, Recorded
from heliograph.controller.snapshot import LinkSnapshot
from heliograph.model.admission import TopicFacts, admit_topic
from heliograph.model.errors import ClusterUnreachable, ProtocolError, RequestFailed
from heliograph.model.events import Severity
from heliograph.model.link import Link

__all__ = ["Finding", "Severity", "preflight", "preflight_links"]

ClientOf = Callable[[str], ClusterClient]


async def preflight(
    link: Link,
    source: ClusterClient,
    target: ClusterClient,
    snapshot: LinkSnapshot,
    recorded: Recorded = NOTHING_RECORDED,
) -> tuple[Finding, ...]:
    """What is missing for this link, errors first; `ClusterUnreachable` when a cluster goes away meanwhile.
    `recorded`: what the ledger says of it."""
    try:
        findings = await _find(link, source, target, snapshot, recorded)
    except (RequestFailed, ProtocolError) as problem:
        raise ClusterUnreachable(
            f"link {link.name}: a cluster answered but could not be checked: {problem.message}",
            hint=problem.hint or "see the broker's log",
        ) from problem
    return tuple(sorted(findings, key=lambda each: each.severity is not Severity.ERROR))


async def preflight_links(
    source_of: ClientOf,
    target_of: ClientOf,
    snapshots: Iterable[LinkSnapshot],
    recorded: Mapping[str, Recorded] | None = None,
) -> tuple[Finding, ...]:
    """Of all links; `source_of` and `target_of` give a link's clients by its name, `recorded` what its ledger says."""
    findings: list[Finding] = []
    for snapshot in snapshots:
        link = snapshot.link
        known = (recorded or {}).get(link.name, NOTHING_RECORDED)
        findings += await preflight(link, source_of(link.name), target_of(link.name), snapshot, known)
    return tuple(findings)


async def _find(
    link: Link, source: ClusterClient, target: ClusterClient, snapshot: LinkSnapshot, recorded: Recorded
) -> list[Finding]:
    here, there = Side(link=link.name, client=source), Side(link=link.name, client=target)
    findings = await check_brokers(here, SOURCE_NEEDS) + await check_source(here, snapshot)
    if link.deletes:
        findings += await check_topic_ids(here)
    loop = _same_cluster(there, snapshot)
    if loop is not None:
        return [loop, *findings]  # of a target that is the wrong cluster nothing else is worth knowing
    apis = await check_brokers(there, TARGET_NEEDS)
    findings += apis
    if any(each.severity is Severity.ERROR for each in apis):
        return findings  # its brokers would not understand the questions
    groups = groups_of(link.name, snapshot.source_cluster_id)
    # At once: each waits 3 s for a broker that hangs.
    rights, deletions, markers, ledger, coordination = await asyncio.gather(
        check_target(there, snapshot, groups),
        check_deletions(there, snapshot, recorded),
        check_markers(there, snapshot),
        check_ledger(there, snapshot),
        check_groups(there),
    )
    rights += deletions + markers + ledger
    barred = {name for each in rights for name in each.topics if each.severity is Severity.ERROR}
    findings += rights + coordination
    return findings + await check_answers(there, set(snapshot.targets) - barred)


def _same_cluster(there: Side, snapshot: LinkSnapshot) -> Finding | None:
    """The same question that every topic is asked; here once for the whole link."""
    ids = snapshot.cluster_ids
    facts = TopicFacts(
        source_cluster_id=ids[0],
        target_cluster_id=ids[1],
        source_partitions=0,
        target_partitions=0,
        target_config={},
    )
    refused = admit_topic(facts)
    return there.find(Severity.ERROR, refused.message, refused.hint) if refused else None
