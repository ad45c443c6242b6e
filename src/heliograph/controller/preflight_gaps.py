"""Preflight, what not every topic needs: a right by which gaps are filled, and the right to delete fillers.

Owns what a link lacks for topics with transactions, for losses that are accepted, and for mirrors that begin above
offset 0. How these are copied is copier/fill.py's and copier/alignment.py's.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from heliograph.cluster.grants import Resource, Right, gap_grant_lines, transactional_grant_line
from heliograph.cluster.rights import try_deleting_records
from heliograph.controller.finding import Finding, Side, listed
from heliograph.controller.gap_filling import UNREAD, GapFilling, GapWay, read_gap_filling
from heliograph.controller.recorded import Recorded
from heliograph.controller.snapshot import LinkSnapshot
from heliograph.controller.verdict import Aligned, aligned_targets
from heliograph.model.events import Severity
from heliograph.model.policy import OnLoss
from heliograph.wire.error_codes import ErrorCode

FILLERS = (
    "its mirror begins above offset 0 (the source's log starts there, or `start` says so), and the records that align"
    " it must be deleted again"
)
MAYBE_FILLERS = (
    "if its mirror begins above offset 0, which depends on the time of `start`, the records that align it must be"
    " deleted again"
)
OTHER_BROKERS = "exclude topics with transactions, or choose a target of Apache Kafka 2.8 or later"


async def check_deletions(side: Side, snapshot: LinkSnapshot, recorded: Recorded) -> list[Finding]:
    """DELETE, on target topics that are aligned; nobody else needs it."""
    aligned = aligned_targets(snapshot, recorded)
    codes = await try_deleting_records(side.client, aligned)
    denied = [name for name, code in codes.items() if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED]

    def lacks(answer: Aligned, severity: Severity, consequence: str) -> list[Finding]:
        names = [name for name in denied if aligned[name] is answer]
        return side.lacks(Right.DELETE, Resource.TOPIC, names, severity=severity, consequence=consequence)

    return [
        *lacks(Aligned.YES, Severity.ERROR, FILLERS),
        *lacks(Aligned.MAYBE, Severity.WARNING, MAYBE_FILLERS),
    ]


async def check_markers(side: Side, snapshot: LinkSnapshot) -> list[Finding]:
    """Never an error: which topics have transactions, or lose records, is not known before they are read."""
    if not snapshot.sources:
        return []
    filling = snapshot.gaps
    if filling == UNREAD:
        filling = await read_gap_filling(side.client, snapshot.source_cluster_id, snapshot.target_names)
    return judge_gaps(side, snapshot, filling)


def judge_gaps(side: Side, snapshot: LinkSnapshot, filling: GapFilling) -> list[Finding]:
    if filling.way is GapWay.TRANSACTIONS and filling.barred:
        return [_barred(side, snapshot, filling)]
    if filling.way is not GapWay.NONE:
        return []  # a broker that cannot be asked is told by check_brokers
    consequence = _stops(snapshot, snapshot.target_names)
    if not filling.denied:
        return [side.find(Severity.WARNING, f"{filling.problem}: {consequence}", OTHER_BROKERS)]
    words = (
        "ALTER or CLUSTER_ACTION on the cluster is missing, and so is WRITE on transactional ids"
        f" {filling.prefix}*: {consequence}"
    )
    found = side.find(Severity.WARNING, words, gap_grant_lines(side.client.properties, filling.prefix))
    return [replace(found, right=Right.ALTER, resource=Resource.CLUSTER)]


def _stops(snapshot: LinkSnapshot, target_names: Collection[str]) -> str:
    """What becomes of these topics without it."""
    named = [
        topic.name for topic in snapshot.sources if snapshot.link.target_topic(topic.name) in target_names
    ]
    losing = [name for name in named if snapshot.link.policy_of(name).on_loss is OnLoss.CONTINUE]
    words = f"topics with transactions stop at their first gap (of {listed(named)})"
    if losing:
        words += f", and at records that were lost although on_loss is continue (of {listed(losing)})"
    return words


def _barred(side: Side, snapshot: LinkSnapshot, filling: GapFilling) -> Finding:
    """Of topics that lack what others of the link have."""
    consequence = _stops(snapshot, filling.barred)
    words = f"WRITE on transactional ids of topic {listed(filling.barred)} is missing: {consequence}"
    hint = transactional_grant_line(side.client.properties, filling.prefix)
    found = side.find(Severity.WARNING, words, hint)
    return replace(found, right=Right.WRITE, resource=Resource.TRANSACTIONAL_ID)
