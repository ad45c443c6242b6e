"""The ledgers of links, as somebody reads them who drives none of the links. Reads only: nothing is made or written.

A ledger that cannot be read hides stops and pauses, and nothing else; why it cannot is for whoever shows them to say.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from heliograph.cluster.at_most import at_most
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.grants import Resource, Right, grant_line
from heliograph.cluster.own_topics import OwnTopics
from heliograph.controller.clusters import Clusters
from heliograph.controller.ledger import Ledger
from heliograph.controller.ledger_word import LedgerWords
from heliograph.controller.live_document import Surveyed
from heliograph.controller.snapshot import LinkSnapshot
from heliograph.model.command import CommandState
from heliograph.model.errors import BrokerRefused, ProtocolError, RequestFailed
from heliograph.model.ledger import COMMANDS_TOPIC, LEDGER_TOPIC, LedgerState
from heliograph.wire.error_codes import ErrorCode

LEDGERS_AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerSight:
    """`problem`: why it could not be read, and what to do about it."""

    words: LedgerWords
    problem: str | None = None


def nothing_recorded(problem: str | None = None) -> LedgerSight:
    return LedgerSight(words=LedgerWords(LedgerState(), CommandState(), ""), problem=problem)


async def look_at_ledgers(clusters: Clusters, surveyed: Iterable[Surveyed]) -> dict[str, LedgerSight]:
    """By link, of those whose clusters can be seen."""
    seen = [each for each in surveyed if isinstance(each, LinkSnapshot)]

    async def look(snapshot: LinkSnapshot) -> LedgerSight:
        return await look_at_ledger(clusters.target(snapshot.link.name), snapshot.source_cluster_id)

    sights = await at_most(LEDGERS_AT_ONCE, (partial(look, each) for each in seen))
    return {each.link.name: sight for each, sight in zip(seen, sights, strict=True)}


async def look_at_ledger(target: ClusterClient, source_cluster_id: str) -> LedgerSight:
    ledger = Ledger(OwnTopics(target))
    try:
        await ledger.look()
    except (RequestFailed, ProtocolError) as problem:
        return nothing_recorded(_in_words(target, problem))
    return LedgerSight(words=LedgerWords(ledger.state, ledger.commands, source_cluster_id))


def _in_words(target: ClusterClient, problem: RequestFailed | ProtocolError) -> str:
    words = (
        f"stops and pauses that were recorded on cluster {target.name!r} cannot be read: {problem.message}"
    )
    if not isinstance(problem, BrokerRefused) or problem.code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return words
    line = grant_line(target.properties, Right.READ, Resource.TOPIC, [LEDGER_TOPIC, COMMANDS_TOPIC])
    return f"{words}; grant READ: {line}"
