"""Preflight, what not every topic needs: a right by which gaps are filled, and the right to delete fillers.

Owns what a link lacks for topics with transactions and for logs that start above 0. How these are copied is
copier/fill.py's and copier/alignment.py's.
"""

from __future__ import annotations

from dataclasses import replace

from heliograph.cluster.grants import Resource, Right, gap_grant_lines, transactional_grant_line
from heliograph.cluster.rights import try_deleting_records
from heliograph.controller.finding import Finding, Side, listed
from heliograph.controller.gap_filling import UNREAD, GapFilling, GapWay, read_gap_filling
from heliograph.controller.snapshot import LinkSnapshot
from heliograph.controller.verdict import aligned_targets
from heliograph.model.events import Severity
from heliograph.wire.error_codes import ErrorCode

FILLERS = "its source's log starts above 0, and the records that align the mirror must be deleted again"
_STOP = "topics with transactions stop at their first gap"
OTHER_BROKERS = "exclude topics with transactions, or choose a target of Apache Kafka 2.8 or later"


async def check_deletions(side: Side, snapshot: LinkSnapshot) -> list[Finding]:
    """DELETE, on target topics that are aligned; nobody else needs it."""
    codes = await try_deleting_records(side.client, aligned_targets(snapshot))
    denied = [name for name, code in codes.items() if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    return side.lacks(Right.DELETE, Resource.TOPIC, denied, consequence=FILLERS)


async def check_markers(side: Side, snapshot: LinkSnapshot) -> list[Finding]:
    """Never an error: which topics have transactions is not known before they are read."""
    if not snapshot.sources:
        return []
    filling = snapshot.gaps
    if filling == UNREAD:
        filling = await read_gap_filling(side.client, snapshot.source_cluster_id, snapshot.target_names)
    return judge_gaps(side, snapshot, filling)


def judge_gaps(side: Side, snapshot: LinkSnapshot, filling: GapFilling) -> list[Finding]:
    if filling.way is GapWay.TRANSACTIONS and filling.barred:
        return [_barred(side, filling)]
    if filling.way is not GapWay.NONE:
        return []  # a broker that cannot be asked is told by check_brokers
    consequence = f"{_STOP} (of {listed(topic.name for topic in snapshot.sources)})"
    if not filling.denied:
        return [side.find(Severity.WARNING, f"{filling.problem}: {consequence}", OTHER_BROKERS)]
    words = (
        "ALTER or CLUSTER_ACTION on the cluster is missing, and so is WRITE on transactional ids"
        f" {filling.prefix}*: {consequence}"
    )
    found = side.find(Severity.WARNING, words, gap_grant_lines(side.client.properties, filling.prefix))
    return [replace(found, right=Right.ALTER, resource=Resource.CLUSTER)]


def _barred(side: Side, filling: GapFilling) -> Finding:
    """Of topics that lack what others of the link have."""
    words = f"WRITE on transactional ids of topic {listed(filling.barred)} is missing: {_STOP}"
    hint = transactional_grant_line(side.client.properties, filling.prefix)
    found = side.find(Severity.WARNING, words, hint)
    return replace(found, right=Right.WRITE, resource=Resource.TRANSACTIONAL_ID)
