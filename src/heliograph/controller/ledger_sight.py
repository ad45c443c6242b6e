"""The ledgers of links, as somebody reads them who drives none of the links. Reads only: nothing is made or written.

For a first plan, and for `plan`, `status` and `topics`. A ledger that cannot be read hides stops and pauses, and
nothing else; why it cannot is for whoever shows them to say. A run that takes a link over asks again, and tells.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from heliograph.cluster.at_most import at_most
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.grants import Resource, Right, grant_line
from heliograph.controller.at_first import AtFirst, read_at_first
from heliograph.controller.clusters import Clusters
from heliograph.controller.ledger import Ledger
from heliograph.controller.recorded import NOTHING_RECORDED, Recorded
from heliograph.controller.snapshot import LinkAway, LinkSnapshot
from heliograph.model.errors import BrokerRefused, ProtocolError, RequestFailed
from heliograph.model.ledger import COMMANDS_TOPIC, LEDGER_TOPIC
from heliograph.wire.error_codes import ErrorCode

LEDGERS_AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerSight:
    """`problem`: why it could not be read, and what to do about it; then nothing is known of it. `at_first`: None: the
    link never ran, as far as is known."""

    recorded: Recorded = NOTHING_RECORDED
    at_first: AtFirst | None = None
    problem: str | None = None


NOT_SEEN = LedgerSight()


async def look_at_ledgers(
    clusters: Clusters, surveyed: Iterable[LinkSnapshot | LinkAway]
) -> dict[str, LedgerSight]:
    """By link, of those whose clusters can be seen. A cluster that several links lead to is read once."""
    seen = [each for each in surveyed if isinstance(each, LinkSnapshot)]
    readers = {each.target_cluster_id: each.link.name for each in seen}
    ledgers = await at_most(LEDGERS_AT_ONCE, (partial(_look, clusters, link) for link in readers.values()))
    by_target = dict(zip(readers, ledgers, strict=True))
    return {
        each.link.name: _sight(by_target[each.target_cluster_id], each.source_cluster_id, each.link.name)
        for each in seen
    }


async def _look(clusters: Clusters, link: str) -> Ledger | str:
    """In words why, where it cannot be read."""
    ledger = Ledger(clusters.own_topics(link))
    try:
        await ledger.look()
    except (RequestFailed, ProtocolError) as problem:
        return _in_words(clusters.target(link), problem)
    return ledger


def _sight(ledger: Ledger | str, source_cluster_id: str, link: str) -> LedgerSight:
    if isinstance(ledger, str):
        return LedgerSight(problem=ledger)
    return LedgerSight(
        recorded=Recorded(ledger.state, ledger.commands, source_cluster_id),
        at_first=read_at_first(ledger.state, source_cluster_id, link),
    )


def _in_words(target: ClusterClient, problem: RequestFailed | ProtocolError) -> str:
    words = (
        f"stops and pauses that were recorded on cluster {target.name!r} cannot be read: {problem.message}"
    )
    if not isinstance(problem, BrokerRefused) or problem.code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return words
    line = grant_line(target.properties, Right.READ, Resource.TOPIC, [LEDGER_TOPIC, COMMANDS_TOPIC])
    return f"{words}; grant READ: {line}"
