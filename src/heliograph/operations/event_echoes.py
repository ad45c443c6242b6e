"""Events that several target clusters hold, told once. Pure.

A run writes what is about it as a whole to all of its target clusters. Who reads more than one of them meets it again.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterable

from heliograph.model.events import Event
from heliograph.operations.recorded_event import RecordedEvent

REMEMBERED = 100_000  # about 50 MB; of a run as a whole there are a few a minute, more while Spark fails


class Echoes:
    """`REMEMBERED`: what a cluster that was away brings that much later is told again, rather than not at all."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._met: OrderedDict[Hashable, Counter[str]] = OrderedDict()

    def without(self, events: Iterable[RecordedEvent]) -> list[RecordedEvent]:
        return [event for event in events if not self._is_echo(event)]

    def _is_echo(self, event: RecordedEvent) -> bool:
        """A run may tell the very same twice: it is an echo only as often as another cluster has brought it."""
        if (
            event.link is not None or event.code == Event.EVENTS_LEFT_OUT
        ):  # that is about the cluster's own topic
            return False
        what = (event.at, event.code, event.message, event.host, event.pid)
        met = self._met.setdefault(what, Counter())
        told = max(met.values(), default=0)
        met[event.target] += 1
        if len(self._met) > self._remembered:
            self._met.popitem(last=False)
        return met[event.target] <= told
