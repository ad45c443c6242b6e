"""Preflight, what not every topic needs: a right by which gaps are filled, and the right to delete fillers.

Owns what a link lacks for topics with transactions, for compacted ones, for losses that are accepted, and for mirrors
that begin above offset 0. How these are copied is copier/fill.py's and copier/alignment.py's.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from heliograph.cluster.grants import Resource, Right, gap_grant_lines, transactional_grant_line
from heliograph.cluster.rights import try_deleting_records
from heliograph.controller.finding import Finding, Side, listed
from heliograph.controller.gap_filling import UNREAD, GapFilling, read_gap_filling
from heliograph.controller.recorded import Recorded
from heliograph.controller.snapshot import LinkSnapshot
from heliograph.controller.verdict import Aligned, aligned_targets, build_phase
from heliograph.model.events import Severity
from heliograph.model.fill_way import FillWay
from heliograph.model.policy import OnLoss
from heliograph.model.states import BuildPhase, StopReason
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
    """An error for compacted topics that are to be built, which needs a marker; else a warning: which topics have
    transactions, or lose records, is not known before they are read."""
    if not snapshot.sources:
        return []
    filling = snapshot.gaps
    if filling == UNREAD:
        filling = await read_gap_filling(side.client, snapshot.source_cluster_id, snapshot.target_names)
    return judge_gaps(side, snapshot, filling)


def judge_gaps(side: Side, snapshot: LinkSnapshot, filling: GapFilling) -> list[Finding]:
    unfilled = [name for name in snapshot.target_names if filling.fill_way(name) is FillWay.NONE]
    if not unfilled:
        return []  # a broker that cannot be asked is told by check_brokers
    lack = _lack(side, filling)
    words = f"{lack.words}: {_stops(snapshot, unfilled)}"
    found = replace(side.find(Severity.WARNING, words, lack.hint), right=lack.right, resource=lack.resource)
    return [found, *_unbuilt(side, snapshot, unfilled, lack)]


class _Lack(NamedTuple):
    """What is missing to fill gaps of some topics."""

    words: str
    hint: str
    right: Right | None = None
    resource: Resource | None = None


def _lack(side: Side, filling: GapFilling) -> _Lack:
    properties, prefix = side.client.properties, filling.prefix
    if filling.barred:  # these topics lack what others of the link have
        words = f"WRITE on transactional ids of topic {listed(filling.barred)} is missing"
        hint = transactional_grant_line(properties, prefix)
        return _Lack(words, hint, Right.WRITE, Resource.TRANSACTIONAL_ID)
    if not filling.denied:
        return _Lack(filling.problem, OTHER_BROKERS)
    words = (
        f"ALTER or CLUSTER_ACTION on the cluster is missing, and so is WRITE on transactional ids {prefix}*"
    )
    return _Lack(words, gap_grant_lines(properties, prefix), Right.ALTER, Resource.CLUSTER)


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


def _unbuilt(side: Side, snapshot: LinkSnapshot, target_names: Collection[str], lack: _Lack) -> list[Finding]:
    """Else it would show when a topic is full of fillers, which end with a marker. One without records has no hole."""
    built = [
        name
        for topic in snapshot.sources
        if (name := snapshot.link.target_topic(topic.name)) in target_names
        and build_phase(snapshot, topic) is BuildPhase.FILLING
        and any(
            sight.source is None or sight.source.start < sight.source.end
            for sight in topic.partitions.values()
        )
    ]
    if not built:
        return []
    words = f"{lack.words}: the compacted topic {listed(built)} cannot be built: its last hole needs a marker"
    found = side.find(Severity.ERROR, words, lack.hint, built)
    return [replace(found, reason=StopReason.BUILD)]
