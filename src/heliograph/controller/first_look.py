"""What is written down for links, looked at without making or holding anything: for a first plan, and for `plan`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from heliograph.controller.clusters import Clusters
from heliograph.controller.ledger import Ledger
from heliograph.controller.plan import Plan
from heliograph.controller.recorded import NOTHING_RECORDED, Recorded
from heliograph.controller.snapshot import LinkSnapshot
from heliograph.model.command import Wish
from heliograph.model.errors import ProtocolError, RequestFailed


async def look_at_ledgers(clusters: Clusters, snapshots: Iterable[LinkSnapshot]) -> dict[str, Recorded]:
    """By link. Of a ledger that cannot be read nothing is known: whoever takes the link over tells why."""
    ledgers: dict[str, Ledger | None] = {}
    found = {}
    for snapshot in snapshots:
        source_id, target_id = snapshot.cluster_ids
        if target_id not in ledgers:
            ledgers[target_id] = await _look(clusters, snapshot.link.name)
        ledger = ledgers[target_id]
        found[snapshot.link.name] = (
            Recorded(ledger.state, ledger.commands, source_id) if ledger is not None else NOTHING_RECORDED
        )
    return found


async def _look(clusters: Clusters, link: str) -> Ledger | None:
    ledger = Ledger(clusters.own_topics(link))
    try:
        return ledger if await ledger.look() else None
    except (RequestFailed, ProtocolError):
        return None


def is_anything_wanted(todo: Plan, recorded: Mapping[str, Recorded]) -> bool:
    """Whether an operator wants something of partitions that nobody would copy: then there is something to do."""
    partitions = [refusal.partition for refusal in todo.refusals] + [each.partition for each in todo.paused]
    idle = {(partition.link, partition.target_topic) for partition in partitions}
    return any(
        command.subject.target_topic == topic
        and command.wish is not Wish.PAUSE
        and recorded[link].unanswered(command)
        for link, topic in idle
        if link in recorded
        for command in recorded[link].commands()
    )
