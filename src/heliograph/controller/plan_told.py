"""What operators are told of a plan that is in force: what it refuses, and what waits for a topic that it must not
create. Each thing once, however often it is planned."""

from __future__ import annotations

from collections.abc import Iterable

from heliograph.controller.plan import AwaitPartition, RefusePartition
from heliograph.model.clock import time_of_day
from heliograph.model.events import Event
from heliograph.model.occurrence import Occurrence, of_stop
from heliograph.model.outbox import Outbox


class PlanTold:
    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._missing: set[tuple[str, str]] = set()  # link and target topic, of which an operator was told

    def refused(self, refusals: Iterable[RefusePartition]) -> None:
        """Of partitions that were not stopped before."""
        at = time_of_day()
        for each in refusals:
            self._outbox.put(of_stop(each.partition, each.why.as_stop(), at))

    def missing(self, awaited: Iterable[AwaitPartition]) -> None:
        """Once for each topic, however many partitions it has."""
        for each in awaited:
            where = each.partition
            if (where.link, where.target_topic) not in self._missing:
                self._missing.add((where.link, where.target_topic))
                self._outbox.put(
                    Occurrence(
                        at=time_of_day(),
                        code=Event.TOPIC_MISSING,
                        message=f"link {where.link}: topic {where.source_topic} waits: {each.why}",
                        hint=each.command,
                        link=where.link,
                        source_topic=where.source_topic,
                        target_topic=where.target_topic,
                    )
                )
