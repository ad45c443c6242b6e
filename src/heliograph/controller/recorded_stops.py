"""Which stops are written down: what needs an operator, and would be forgotten when the run ends. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from heliograph.controller.link_ledger import LinkLedger
from heliograph.controller.plan import RefusePartition
from heliograph.model.admission import Refused
from heliograph.model.ledger import Row
from heliograph.model.occurrence import Occurrence
from heliograph.model.partition import MirrorPartition
from heliograph.model.states import StopReason


def stops_met(occurrences: Iterable[Occurrence]) -> dict[str, list[RefusePartition]]:
    """What lanes have told of partitions that stop, by link."""
    met: dict[str, list[RefusePartition]] = {}
    for each in occurrences:
        # A lane that lacks kernels is mended by a better one: it is nothing of the partition's.
        if (
            isinstance(each.code, StopReason)
            and each.code is not StopReason.KERNELS
            and each.link is not None
        ):
            assert each.source_topic is not None
            assert each.target_topic is not None
            assert each.partition is not None
            key = MirrorPartition(each.link, each.source_topic, each.target_topic, each.partition)
            why = Refused(
                reason=each.code,
                message=each.message.removeprefix(f"{key} is stopped: "),
                hint=each.hint or "",
                first_offset=each.first_offset,
                next_offset=each.next_offset,
            )
            met.setdefault(each.link, []).append(RefusePartition(partition=key, why=why))
    return met


def rows_of_stops(ledger: LinkLedger, stops: Iterable[RefusePartition]) -> list[Row]:
    """Those of which nothing is written yet: a stop that is found again stays as it was. Of a topic that is not there
    only that it was deleted is written: it counts for whichever is made next."""
    rows = []
    for each in stops:
        topic_id = ledger.target_id(each.partition.target_topic)
        lasts = bool(topic_id) or each.why.reason is StopReason.RECREATED
        if lasts and ledger.recorded.stop(each.partition.target, topic_id) is None:
            rows.append(ledger.of_stop(each.partition, each.why))
    return rows
